#include "app/options.hpp"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "app/flag_table.hpp"
#include "app/flag_values.hpp"

namespace warmroute::app {
namespace {

using std::chrono::milliseconds;

constexpr int usage_exit = 2;      // as Go's flag package
constexpr int invalid_exit = 255;  // as klog.Fatal

/// Ends the parsing: what is printed, and the exit code.
struct Stop {
  int exit_code = usage_exit;
  std::string text;
};

/// CLI11 refuses empty values and takes [::1] for a list, so values travel behind a mark.
constexpr char value_mark = '\x01';

class CommandLine {
 public:
  CommandLine(int argc, const char* const* argv, const char* const* environment) : arguments_(argv, argv + argc) {
    program_ = argc > 0 ? arguments_[0].substr(arguments_[0].rfind('/') + 1) : "warmroute";
    for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t equals = text.find('=');
      if (equals == std::string_view::npos) continue;
      environment_.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }

  Options run() {
    const std::vector<std::string> tokens = normalize();
    read_own_variables();
    read_flags(tokens);
    check_flags();
    read_environment();
    note_flags();
    std::vector<const Flag*> sorted;
    for (const Flag& flag : flags_) sorted.push_back(&flag);
    std::sort(sorted.begin(), sorted.end(), [](const Flag* a, const Flag* b) { return a->name < b->name; });
    for (const Flag* flag : sorted) options_.flag_values.emplace_back(flag->name, flag->show(options_));
    return std::move(options_);
  }

 private:
  [[noreturn]] void usage_error(const std::string& message) const {
    throw Stop{usage_exit, fmt::format("{}\nSee {} --help.\n", message, program_)};
  }
  [[noreturn]] static void invalid(std::string message) { throw Stop{invalid_exit, std::move(message) + "\n"}; }

  Flag* find(std::string_view name) {
    for (Flag& flag : flags_) {
      if (flag.name == name) return &flag;
    }
    // klog's names have underscores; some charts write them with dashes.
    std::string underscored(name);
    std::replace(underscored.begin(), underscored.end(), '-', '_');
    for (Flag& flag : flags_) {
      if (flag.origin == Flag::Origin::klog && flag.name == underscored) return &flag;
    }
    return nullptr;
  }

  [[nodiscard]] const std::string* variable(const std::string& name) const {
    const auto found = environment_.find(name);
    return found == environment_.end() || found->second.empty() ? nullptr : &found->second;
  }

  /// Go's forms of flags as `--name=value` for CLI11, which does not know all of them.
  std::vector<std::string> normalize() {
    std::vector<std::string> out;
    for (std::size_t i = 1; i < arguments_.size(); ++i) {
      const std::string& argument = arguments_[i];
      if (argument == "--" && i + 1 == arguments_.size()) break;
      if (argument.size() < 2 || argument[0] != '-' || argument == "--") {
        usage_error(fmt::format("unexpected argument: {} (a boolean flag takes its value as --flag=false)", argument));
      }
      if (argument == "-h" || argument == "--help") throw Stop{0, help()};
      if (argument == "--version") throw Stop{0, fmt::format("warmroute {}\n", version())};
      std::string_view body = argument;
      std::string name;
      std::string value;
      bool has_value = false;
      if (argument[1] == '-') {
        body.remove_prefix(2);
        const std::size_t equals = body.find('=');
        name = body.substr(0, equals);
        has_value = equals != std::string_view::npos;
        if (has_value) value = body.substr(equals + 1);
        if (name.empty()) usage_error(fmt::format("bad flag syntax: {}", argument));
      } else {
        if (argument[1] != 'v') {
          usage_error(fmt::format("unknown shorthand flag: '{}' in {}", argument[1], argument));
        }
        name = "v";
        body.remove_prefix(2);
        has_value = !body.empty();
        value = body.starts_with('=') ? body.substr(1) : body;
      }
      const Flag* flag = find(name);
      if (flag == nullptr) usage_error(fmt::format("unknown flag: --{}", name));
      if (!has_value && flag->boolean) {
        value = "true";
      } else if (!has_value) {
        if (++i == arguments_.size()) usage_error(fmt::format("flag needs an argument: {}", argument));
        value = arguments_[i];
      }
      out.push_back(fmt::format("--{}={}{}", flag->name, value_mark, value));
    }
    return out;
  }

  void build(CLI::App& app) {
    app.set_help_flag();
    app.get_formatter()->column_width(44);
    for (const Flag& flag : flags_) {
      CLI::Option* option = app.add_option("--" + flag.name);
      option->description(flag.help + (flag.later ? " (not built yet)" : ""));
      option->type_name(flag.boolean ? "[=BOOL]" : flag.type);
      option->default_str(flag.show(Options{}));
      option->group(flag.group);
      option->expected(1);
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }

  std::string help() {
    CLI::App app("Routes OpenAI requests to the engine whose KV cache holds the longest prefix of the prompt.",
                 program_);
    build(app);
    app.footer(
        "Other:\n"
        "  -h, --help                                this text\n"
        "  --version                                 the version\n"
        "  healthcheck [FLAG...]                     ask the router with these flags for /healthz: exit code 0 or 1\n"
        "\n"
        "Durations: 300ms, 1m30s. Sizes: bytes, or with KiB, MiB, GiB. A boolean flag: --check or --check=false.\n"
        "Each flag of Configuration, Clients and engines, Time-outs, Limits, Failing pods and Waiting for a pod, and\n"
        "--bind-address, --kube-watch-silence and --kube-relist, can be given as a variable, e.g.\n"
        "WARMROUTE_DRAIN_DELAY=10s; the flag wins. Further variables: DRAIN_TIMEOUT, KUBECONFIG,\n"
        "METRICS_SCRAPE_INTERVAL, ACCESS_LOG_ENABLED, ACCESS_LOG_FORMAT, ACCESS_LOG_OUTPUT, POD_NAMESPACE.");
    std::string text = app.help();
    for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  }

  void read_own_variables() {
    std::vector<std::string> known;
    for (const Flag& flag : flags_) {
      const std::string name = flag.variable();
      if (name.empty()) continue;
      known.push_back(name);
      const std::string* text = variable(name);
      if (text == nullptr) continue;
      given_.push_back(flag.name);
      if (const std::string problem = flag.set(options_, *text); !problem.empty()) {
        usage_error(fmt::format("invalid value \"{}\" for the variable {}: {}", *text, name, problem));
      }
    }
    for (const auto& [name, value] : environment_) {
      // Kubernetes sets WARMROUTE_SERVICE_… and WARMROUTE_PORT… for a Service called warmroute.
      if (!name.starts_with("WARMROUTE_") || name.starts_with("WARMROUTE_SERVICE_") ||
          name.starts_with("WARMROUTE_PORT")) {
        continue;
      }
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        options_.warnings.push_back(fmt::format("unknown environment variable {} is ignored", name));
      }
    }
  }

  void read_flags(const std::vector<std::string>& tokens) {
    CLI::App app;
    build(app);
    try {
      std::vector<std::string> reversed(tokens.rbegin(), tokens.rend());  // CLI11 wants it so
      app.parse(reversed);
    } catch (const CLI::Error& error) {
      usage_error(error.what());
    }
    for (const Flag& flag : flags_) {
      const CLI::Option* option = app.get_option("--" + flag.name);
      if (option->count() == 0) continue;
      given_.push_back(flag.name);
      const std::string value = option->results().back().substr(1);
      if (const std::string problem = flag.set(options_, value); !problem.empty()) {
        usage_error(fmt::format("invalid argument \"{}\" for \"--{}\" flag: {}", value, flag.name, problem));
      }
    }
  }

  [[nodiscard]] bool given(std::string_view name) const {
    return std::find(given_.begin(), given_.end(), name) != given_.end();
  }

  /// The Go router's checks, in its order and words.
  void check_flags() const {
    if (options_.tls_cert.empty() != options_.tls_key.empty()) {
      invalid("tls-cert and tls-key must be specified together");
    }
    if (options_.enable_inference_extension && !options_.enable_gateway_api) {
      invalid("--enable-gateway-api-inference-extension requires --enable-gateway-api to be enabled");
    }
    const auto check_port = [](const char* what, int port) {
      if (port < 1 || port > 65535) invalid(fmt::format("invalid {} port: {}", what, port));
    };
    check_port("webhook", options_.webhook_port);
    check_port("debug", options_.debug_port);
    check_port("metrics", options_.metrics_port);
  }

  void read_duration(const std::string& name, milliseconds& target) {
    const std::string* text = variable(name);
    if (text == nullptr) return;
    const auto value = parse_duration(*text);
    if (value && *value > milliseconds(0)) {
      target = *value;
      return;
    }
    options_.warnings.push_back(fmt::format("invalid {} \"{}\": {}; using the default {}", name, *text,
                                            value ? "must be above 0" : value.error().detail, show_duration(target)));
  }

  bool read_switch(const std::string& name) {
    const std::string* text = variable(name);
    if (text == nullptr) return false;
    if (const auto value = parse_bool(*text)) return *value;
    options_.warnings.push_back(
        fmt::format("invalid {} \"{}\": must be true or false; using the default false", name, *text));
    return false;
  }

  void read_environment() {
    if (const auto* text = variable("POD_NAMESPACE"); text != nullptr && !text->empty()) {
      options_.pod_namespace = *text;
      options_.pod_namespace_given = true;
    }
    if (const auto* text = variable("KUBECONFIG"); text != nullptr && options_.kubeconfig.empty()) {
      options_.kubeconfig = *text;
    }
    read_duration("DRAIN_TIMEOUT", options_.drain_timeout);
    read_duration("METRICS_SCRAPE_INTERVAL", options_.scrape_interval);
    // The access log's invalid values keep the default without a word, as in the Go router.
    if (const auto* text = variable("ACCESS_LOG_ENABLED")) {
      if (const auto value = parse_bool(*text)) options_.access_log_enabled = *value;
    }
    if (const auto* text = variable("ACCESS_LOG_FORMAT")) options_.access_log_json = *text == "json";
    if (const auto* text = variable("ACCESS_LOG_OUTPUT")) options_.access_log_output = *text;
    const bool fairness = read_switch("ENABLE_FAIRNESS_SCHEDULING");
    const bool boost = read_switch("ENABLE_SESSION_BOOST");
    if (fairness && boost) {
      invalid("ENABLE_FAIRNESS_SCHEDULING and ENABLE_SESSION_BOOST are mutually exclusive; enable only one");
    }
    if (fairness) invalid("ENABLE_FAIRNESS_SCHEDULING is not supported by this build");
    if (boost) invalid("ENABLE_SESSION_BOOST is not supported by this build");
    if (variable("REDIS_HOST") != nullptr) {
      options_.warnings.emplace_back(
          "REDIS_HOST is set, but this build does not use Redis yet: only requests of this "
          "router are counted as in flight");
    }
  }

  void note_flags() {
    std::string later;
    std::string inert;
    const auto append = [](std::string& list, const Flag& flag) { list += (list.empty() ? "--" : ", --") + flag.name; };
    for (const Flag& flag : flags_) {
      if (!given(flag.name)) continue;
      if (flag.inert) append(inert, flag);
      const bool wanted = flag.show(options_) != flag.show(Options{});  // what is left at its default is not missed
      if (flag.later && wanted) append(later, flag);
    }
    if (!later.empty()) {
      options_.warnings.push_back("accepted without effect, this build does not have the feature yet: " + later);
    }
    if (!inert.empty()) options_.warnings.push_back("accepted without effect: " + inert);
    if (!options_.log_to_stderr && options_.log_file.empty()) {
      options_.warnings.emplace_back("--logtostderr=false has no effect without --log_file");
    }
  }

  std::vector<std::string> arguments_;
  std::string program_;
  std::map<std::string, std::string, std::less<>> environment_;
  std::vector<Flag> flags_ = flag_table();
  std::vector<std::string> given_;
  Options options_;
};

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv, const char* const* environment) {
  ParsedCommandLine out;
  try {
    out.options = CommandLine(argc, argv, environment == nullptr ? ::environ : environment).run();
  } catch (const Stop& stop) {
    out.exit_code = stop.exit_code;
    out.text = stop.text;
  }
  return out;
}

const char* version() noexcept { return WARMROUTE_VERSION; }

}  // namespace warmroute::app
