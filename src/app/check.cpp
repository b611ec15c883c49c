#include "app/check.hpp"

#include <cstdio>
#include <functional>
#include <set>

#include "app/plugin_host.hpp"
#include "app/start_config.hpp"
#include "base/log.hpp"
#include "kube/config.hpp"
#include "source/files.hpp"

namespace warmroute::app {
namespace {

// Collects what plugins say while they are built, so that --check can print it.
class ListeningHost final : public Host {
 public:
  explicit ListeningHost(PluginHost& host) : host_(host) {}
  void info(std::string_view) override {}
  void warning(std::string_view message) override { found.emplace_back(message); }
  void error(std::string_view message) override { found.emplace_back(message); }
  [[nodiscard]] std::uint64_t random() noexcept override { return host_.random(); }
  [[nodiscard]] std::uint64_t hash_seed() const noexcept override { return host_.hash_seed(); }
  [[nodiscard]] std::shared_ptr<CounterByModel> counter_by_model(std::string_view name,
                                                                 std::string_view help) override {
    return host_.counter_by_model(name, help);
  }
  [[nodiscard]] std::shared_ptr<HistogramByModel> histogram_by_model(std::string_view name, std::string_view help,
                                                                     std::span<const double> buckets) override {
    return host_.histogram_by_model(name, help, buckets);
  }
  void gauge(std::string_view, std::string_view, std::function<double()>) override {}
  void on_pod_joined(std::function<void(PodId)>) override {}
  void on_pod_left(std::function<void(PodId)>) override {}
  void on_engine_facts(std::function<void(PodId, const EngineFacts&)>) override {}
  void in_background(std::chrono::seconds, std::function<void()>) override {}

  std::vector<std::string> found;

 private:
  PluginHost& host_;
};

int print(const config::Diagnostics& diagnostics) {
  int count = 0;
  for (const auto& diagnostic : diagnostics) {
    std::fprintf(stderr, "%s%s\n",
                 diagnostic.severity == config::Diagnostic::Severity::warning ? "warning: " : "error: ",
                 diagnostic.text().c_str());
    ++count;
  }
  return count;
}

int check_config(const Options& options) {
  const auto start = load_start_config(options);
  int problems = print(start.outcome.diagnostics);
  if (!start.outcome.config) {
    if (problems > 0) return problems;
    std::fprintf(stderr, "error: %s\n", start.outcome.error.c_str());
    return 1;
  }
  auto registry = metrics::Registry::create();
  PluginHost real_host(*registry);
  ListeningHost host(real_host);
  Registry plugins;
  register_plugins(plugins);
  const auto pipeline = schedule::build_pipeline(start.outcome.config->pipeline, plugins, host, nullptr);
  const auto& where = start.path.empty() ? std::string("default configuration") : start.path;
  if (!pipeline) {
    std::fprintf(stderr, "error: %s: %s\n", where.c_str(), pipeline.error().detail.c_str());
    ++problems;
  }
  for (const auto& message : host.found) {
    std::fprintf(stderr, "warning: %s: %s\n", where.c_str(), message.c_str());
    ++problems;
  }
  return problems;
}

int check_kubeconfig(const std::string& paths) {
  const auto config = kube::load_kubeconfig(paths);
  if (config) return 0;
  std::fprintf(stderr, "error: %s\n", config.error().detail.c_str());
  return 1;
}

}  // namespace

int check(const Options& options) {
  int problems = check_config(options);
  if (!options.resources.empty()) problems += print(source::check_resources(options.resources));
  if (options.resources.empty() && !options.kubeconfig.empty()) problems += check_kubeconfig(options.kubeconfig);
  if (problems == 0) {
    std::printf("configuration and resources are valid\n");
    return 0;
  }
  std::fprintf(stderr, "%d problem%s found\n", problems, problems == 1 ? "" : "s");
  return 1;
}

}  // namespace warmroute::app
