// Parse, check, run; exit codes: 0 after an orderly end, 255 when the start failed, 2 for wrong usage. The one command
// besides, healthcheck, has its own.

#include <csignal>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "app/check.hpp"
#include "app/healthcheck.hpp"
#include "app/lifecycle.hpp"
#include "app/options.hpp"
#include "app/router.hpp"
#include "app/start_config.hpp"
#include "base/log.hpp"

namespace {

using namespace warmroute;

int die(const std::string& message) {
  log::write(log::Level::fatal, message);
  log::stop();
  return 255;  // as klog.Fatal
}

int serve(const app::Options& options) {
  for (const auto& [flag, value] : options.flag_values) log::info("Flag: {}, Value: {}", flag, value);
  for (const auto& warning : options.warnings) log::write(log::Level::warning, warning);

  auto start = app::load_start_config(options);
  for (const auto& diagnostic : start.outcome.diagnostics)
    if (diagnostic.severity == config::Diagnostic::Severity::warning)
      log::write(log::Level::warning, diagnostic.text());
  if (!start.outcome.config) return die(start.outcome.error);
  if (start.path.empty()) log::info("no --config: the default configuration is used");

  app::Router router(options, std::move(*start.outcome.config), start.path, std::move(start.text));
  app::Lifecycle lifecycle(router, options.drain_delay, options.drain_timeout);
  lifecycle.start();  // before the listeners: a signal during the start is an orderly end too
  if (auto started = router.start(); !started) {
    const int code = die(started.error().detail);
    router.finish();
    return code;
  }
  router.run();
  router.finish();
  log::stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  ::tzset();  // once, while there is one thread: localtime_r relies on it
  if (argc > 1 && std::string_view(argv[1]) == "healthcheck") return app::healthcheck(argc, argv);
  const auto parsed = app::parse_command_line(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const auto& options = *parsed.options;
  if (options.check) return app::check(options);
  log::Options logging;
  logging.verbosity = options.verbosity;
  logging.to_stderr = options.log_to_stderr;
  logging.file = options.log_file;
  logging.also_to_stderr = options.also_log_to_stderr;
  logging.stderr_threshold = static_cast<log::Level>(options.stderr_threshold);
  logging.skip_headers = options.skip_log_headers;
  log::start(logging);
  return serve(options);
}
