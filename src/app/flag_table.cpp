#include "app/flag_table.hpp"

#include <arpa/inet.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "app/flag_values.hpp"

namespace warmroute::app {
namespace {

using std::chrono::milliseconds;

constexpr auto int_top = std::numeric_limits<int>::max();

template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_same_v<T, bool>) return "BOOL";
  if constexpr (std::is_same_v<T, int>) return "INT";
  if constexpr (std::is_same_v<T, double>) return "NUMBER";
  if constexpr (std::is_same_v<T, milliseconds>) return "DURATION";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "SIZE";
  return "TEXT";
}

template <class T, class Parsed>
std::string keep(T& target, const Result<Parsed>& parsed) {
  if (!parsed) return parsed.error().detail;
  target = static_cast<T>(*parsed);
  return {};
}

std::string assign(std::string& target, const std::string& text) {
  target = text;
  return {};
}
std::string assign(bool& target, const std::string& text) { return keep(target, parse_bool(text)); }
std::string assign(int& target, const std::string& text) {
  return keep(target, parse_int(text, std::numeric_limits<int>::min(), int_top));
}
std::string assign(double& target, const std::string& text) { return keep(target, parse_float(text)); }
std::string assign(milliseconds& target, const std::string& text) { return keep(target, parse_duration(text)); }
std::string assign(std::uint64_t& target, const std::string& text) { return keep(target, parse_bytes(text)); }

std::string show(const std::string& value) { return value; }
std::string show(bool value) { return value ? "true" : "false"; }
std::string show(int value) { return std::to_string(value); }
std::string show(double value) { return fmt::format("{}", value); }
std::string show(milliseconds value) { return show_duration(value); }
std::string show(std::uint64_t value) { return show_bytes(value); }

class Table {
 public:
  void group(std::string name, Flag::Origin origin) {
    group_ = std::move(name);
    origin_ = origin;
  }

  Flag& path(std::string name, std::string Options::*member, std::string help) {
    Flag& flag = add(std::move(name), member, std::move(help));
    flag.type = "PATH";
    return flag;
  }

  template <class T>
  Flag& add(std::string name, T Options::*member, std::string help) {
    Flag& flag = blank(std::move(name), type_name<T>(), std::move(help));
    flag.boolean = std::is_same_v<T, bool>;
    flag.set = [member](Options& options, const std::string& text) { return assign(options.*member, text); };
    flag.show = [member](const Options& options) { return show(options.*member); };
    return flag;
  }

  /// Of `minimum` and above.
  template <class T>
  Flag& at_least(std::string name, T Options::*member, T minimum, std::string help) {
    Flag& flag = add(std::move(name), member, std::move(help));
    flag.set = [member, minimum](Options& options, const std::string& text) {
      T value{};
      std::string problem = assign(value, text);
      if (problem.empty() && value < minimum) problem = "must be at least " + show(minimum);
      if (problem.empty()) options.*member = value;
      return problem;
    };
    return flag;
  }

  /// A flag that is read and checked, and has no meaning here.
  void inert(std::string name, const char* type, std::string initial, std::string help) {
    Flag& flag = blank(std::move(name), type, std::move(help));
    flag.boolean = std::string_view(type) == "BOOL";
    flag.inert = true;
    const auto value = std::make_shared<std::string>(std::move(initial));  // the two functions' own state
    const bool boolean = flag.boolean;
    const bool number = std::string_view(type) == "INT";
    flag.set = [value, boolean, number](Options&, const std::string& text) {
      bool truth = false;
      std::int64_t count = 0;
      std::string problem;
      if (boolean) problem = assign(truth, text);
      if (number) problem = keep(count, parse_int(text, 0));
      if (problem.empty()) *value = boolean ? show(truth) : text;
      return problem;
    };
    flag.show = [value](const Options&) { return *value; };
  }

  Flag& blank(std::string name, std::string type, std::string help) {
    Flag flag;
    flag.name = std::move(name);
    flag.group = group_;
    flag.type = std::move(type);
    flag.help = std::move(help);
    flag.origin = origin_;
    flags_.push_back(std::move(flag));
    return flags_.back();
  }

  [[nodiscard]] std::vector<Flag> take() { return std::move(flags_); }

 private:
  std::string group_;
  Flag::Origin origin_ = Flag::Origin::ours;
  std::vector<Flag> flags_;
};

void add_start_flags(Table& table) {
  table.group("Configuration", Flag::Origin::ours);
  Flag& config = table.blank("config", "PATH", "Router configuration, read once");
  config.set = [](Options& options, const std::string& text) {
    if (text.empty()) return std::string("must not be empty");
    options.config = text;
    return std::string();
  };
  config.show = [](const Options& options) { return options.config.value_or("/etc/config/routerConfiguration.yaml"); };
  table.path("resources", &Options::resources, "Standalone mode: YAML file or folder of them, followed while running");
  table.path("kubeconfig", &Options::kubeconfig,
             "Cluster to follow outside of one (else KUBECONFIG, else ~/.kube/config)");
  Flag& compat =
      table.blank("compat", "kthena|none", "Answer as kthena-router does where warmroute differs by default");
  compat.set = [](Options& options, const std::string& text) {
    if (text != "kthena" && text != "none" && !text.empty()) return std::string("must be kthena or none");
    options.compat_kthena = text == "kthena";
    options.compat_given = true;
    return std::string();
  };
  compat.show = [](const Options& options) { return options.compat_kthena ? "kthena" : "none"; };
  table.add("check", &Options::check, "Check configuration and resources, say what is wrong and where, and exit");
  table.at_least("workers", &Options::workers, 0, "Worker threads; 0: the CPUs available");
  table.add("step-times", &Options::step_times, "Measure how long workers are busy without a break (costs a little)");
}

void add_listener_flags(Table& table) {
  table.group("Listeners", Flag::Origin::kthena);
  table.add("port", &Options::port, "Inference port");
  table.path("tls-cert", &Options::tls_cert, "Certificate file of the inference port, with --tls-key");
  table.path("tls-key", &Options::tls_key, "Key file of the inference port");
  table.add("metrics-port", &Options::metrics_port, "Prometheus port");
  table.add("expose-metrics-on-router-port", &Options::expose_metrics_on_router_port,
            "Serve /metrics on the inference port, too");
  table.add("debug-port", &Options::debug_port, "Debug port, on localhost only");
  table.group("Listeners", Flag::Origin::ours);
  Flag& bind =
      table.blank("bind-address", "ADDRESS", "Address of the inference, metrics and webhook ports; empty: all");
  bind.set = [](Options& options, const std::string& text) {
    std::string address = text;
    if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
      address = address.substr(1, address.size() - 2);
    }
    std::array<unsigned char, 16> bytes{};
    if (!address.empty() && ::inet_pton(AF_INET, address.c_str(), bytes.data()) != 1 &&
        ::inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) {
      return std::string("must be an IPv4 or IPv6 address");
    }
    options.bind_address = std::move(address);
    return std::string();
  };
  bind.show = [](const Options& options) { return options.bind_address; };
}

void add_traffic_flags(Table& table) {
  table.group("Clients and engines", Flag::Origin::ours);
  table.add("forwarded-headers", &Options::forwarded_headers, "Add X-Forwarded-For and X-Forwarded-Proto");
  Flag& half_close = table.blank("client-half-close", "cancel|answer",
                                 "What a client that closes its sending side after the request wants");
  half_close.set = [](Options& options, const std::string& text) {
    if (text != "cancel" && text != "answer") return std::string("must be cancel or answer");
    options.half_close_answers = text == "answer";
    return std::string();
  };
  half_close.show = [](const Options& options) { return options.half_close_answers ? "answer" : "cancel"; };
  table.path("upstream-ca", &Options::upstream_ca, "CA file for engines that speak TLS, instead of the system's");
  table.add("upstream-insecure", &Options::upstream_insecure, "Do not verify engines' certificates");

  table.group("Time-outs", Flag::Origin::ours);
  constexpr milliseconds none{0};
  constexpr milliseconds some{1};
  table.at_least("connect-timeout", &Options::connect_timeout, some, "Connect to an engine");
  table.at_least("response-header-timeout", &Options::response_header_timeout, some,
                 "Until an engine's answer begins, where the ModelServer gives no timeout");
  table.at_least("stream-idle-timeout", &Options::stream_idle_timeout, some, "Between two reads of an answer");
  table.at_least("total-timeout", &Options::total_timeout, none, "Whole request; 0: no limit");
  table.at_least("client-head-timeout", &Options::client_head_timeout, some, "Request head");
  table.at_least("client-body-timeout", &Options::client_body_timeout, some, "Request body without progress");
  table.at_least("client-idle-timeout", &Options::client_idle_timeout, some, "Idle client connection");
  table.at_least("client-write-timeout", &Options::client_write_timeout, some, "Answer without progress");
  table.at_least("upstream-idle-timeout", &Options::upstream_idle_timeout, some,
                 "Idle engine connection; engines close theirs after 5s");
  table.at_least("drain-delay", &Options::drain_delay, none, "After SIGTERM, before connections are closed");

  table.group("Limits", Flag::Origin::ours);
  table.at_least<std::uint64_t>("max-head-bytes", &Options::max_head_bytes, 1024, "Request head");
  table.at_least<std::uint64_t>("max-body-bytes", &Options::max_body_bytes, 1, "Request body, else 413");
  table.add("max-buffered-bytes", &Options::max_buffered_bytes,
            "All request bodies together, else 503; 0: a quarter of the memory");
  Flag& connections = table.blank("max-connections", "INT", "Client connections; 0: by the descriptor limit");
  connections.set = [](Options& options, const std::string& text) {
    return keep(options.max_connections, parse_int(text, 0));
  };
  connections.show = [](const Options& options) { return std::to_string(options.max_connections); };
}

void add_overload_flags(Table& table) {
  constexpr milliseconds some{10};
  table.group("Failing pods", Flag::Origin::ours);
  Flag& failures = table.blank("breaker-failures", "INT",
                               "Failures in a row that take a pod out; 0: never, the default with --compat=kthena");
  failures.set = [](Options& options, const std::string& text) {
    const auto value = parse_int(text, 0, 1000);
    if (!value) return value.error().detail;
    options.breaker_failures = static_cast<int>(*value);
    return std::string();
  };
  failures.show = [](const Options& options) { return std::to_string(options.breaker_failures.value_or(5)); };
  table.at_least("breaker-open", &Options::breaker_open, some,
                 "How long the first time; doubles each time it fails again");
  table.at_least("breaker-open-max", &Options::breaker_open_max, some, "How long at most");
  Flag& probes = table.blank("breaker-probes", "INT", "Requests that try the pod then, at most at once; 1 to 15");
  probes.set = [](Options& options, const std::string& text) {
    const auto value = parse_int(text, 1, 15);
    if (!value) return value.error().detail;
    options.breaker_probes = static_cast<int>(*value);
    return std::string();
  };
  probes.show = [](const Options& options) { return std::to_string(options.breaker_probes); };
  table.at_least("breaker-ramp", &Options::breaker_ramp, some, "From a tenth of its requests to all of them");

  table.group("Waiting for a pod (with the plugin max-in-flight)", Flag::Origin::ours);
  table.at_least("queue-length", &Options::queue_length, 0, "Waiting requests of one ModelServer, else 503; 0: none");
  table.at_least<std::uint64_t>("queue-bytes", &Options::queue_bytes, 1,
                                "Bodies of the waiting requests of one ModelServer");
  table.at_least("queue-timeout", &Options::queue_timeout, milliseconds{1},
                 "How long a request waits for a pod, then 503");
}

void add_cluster_flags(Table& table) {
  table.group("Cluster", Flag::Origin::kthena);
  table.add("enable-gateway-api", &Options::enable_gateway_api, "Gateway API listeners").later = true;
  table
      .add("enable-gateway-api-inference-extension", &Options::enable_inference_extension,
           "HTTPRoute and InferencePool; needs --enable-gateway-api")
      .later = true;
  table.add("enable-webhook", &Options::enable_webhook, "Serve the admission webhook, where a cluster is followed");
  table.add("webhook-port", &Options::webhook_port, "Webhook port");
  table.path("webhook-tls-cert-file", &Options::webhook_tls_cert_file,
             "Webhook certificate file, used when the Secret has none");
  table.path("webhook-tls-private-key-file", &Options::webhook_tls_private_key_file, "Webhook key file, used with it");
  table.add("cert-secret-name", &Options::cert_secret_name,
            "Secret with the webhook's certificate; one is made when there is none");
  table.add("webhook-service-name", &Options::webhook_service_name,
            "Name of the webhook's Service, for the certificate that is made");
  table.inert("session-sticky-store", "TEXT", "", "Not used: prefix-cache keeps a conversation on its pod");
  table.inert("session-sticky-redis-address", "TEXT", "", "Not used, as --session-sticky-store");
  table.add("kube-api-qps", &Options::kube_api_qps, "Requests a second to the API server, watches apart; 0: 5");
  table.add("kube-api-burst", &Options::kube_api_burst, "Burst to the API server; 0: 10");
  table.group("Cluster", Flag::Origin::ours);
  table.at_least("kube-watch-silence", &Options::kube_watch_silence, milliseconds{1},
                 "A watch that says nothing for so long is begun again");
  table.at_least("kube-relist", &Options::kube_relist, milliseconds{0},
                 "Between two complete lists beside each watch; 0: none");
}

void add_log_flags(Table& table) {
  table.group("Logging", Flag::Origin::klog);
  table.add("v", &Options::verbosity, "Verbosity; 4 shows the scores of each request (also -v N)");
  table.add("logtostderr", &Options::log_to_stderr, "Log to standard error instead of files");
  table.add("alsologtostderr", &Options::also_log_to_stderr, "With --log_file, log to standard error, too");
  Flag& threshold = table.blank("stderrthreshold", "LEVEL", "With --log_file, from here on to standard error, too");
  threshold.set = [](Options& options, const std::string& text) {
    constexpr std::array<std::string_view, 4> names{"INFO", "WARNING", "ERROR", "FATAL"};
    std::string upper = text;
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (const auto* at = std::find(names.begin(), names.end(), upper); at != names.end()) {
      options.stderr_threshold = static_cast<int>(at - names.begin());
      return std::string();
    }
    return parse_int(text, 0, 3) ? keep(options.stderr_threshold, parse_int(text, 0, 3))
                                 : std::string("must be INFO, WARNING, ERROR, FATAL or 0 to 3");
  };
  threshold.show = [](const Options& options) { return std::to_string(options.stderr_threshold); };
  table.path("log_file", &Options::log_file, "Log file, when --logtostderr=false");
  table.add("skip_headers", &Options::skip_log_headers, "No prefix before messages");
  table.inert("log_dir", "PATH", "", "Not used; see --log_file");
  table.inert("log_file_max_size", "INT", "1800", "Not used: files are not rotated");
  table.inert("vmodule", "TEXT", "", "Not used");
  table.inert("add_dir_header", "BOOL", "false", "Not used");
  table.inert("skip_log_headers", "BOOL", "false", "Not used");
  table.inert("one_output", "BOOL", "false", "Not used");
  table.inert("log_backtrace_at", "TEXT", ":0", "Not used");
}

}  // namespace

std::string Flag::variable() const {
  if (origin != Origin::ours) return {};
  std::string out = "WARMROUTE_" + name;
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    if (c == '-') return '_';
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return out;
}

std::vector<Flag> flag_table() {
  Table table;
  add_start_flags(table);
  add_listener_flags(table);
  add_traffic_flags(table);
  add_overload_flags(table);
  add_cluster_flags(table);
  add_log_flags(table);
  return table.take();
}

}  // namespace warmroute::app
