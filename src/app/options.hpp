#pragma once
// Command line and environment in one struct (spec 1.1, 1.2; decisions 1 to 3). Every flag of ours has a variable
// WARMROUTE_NAME (upper case, - becomes _); a flag on the command line wins over its variable.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace warmroute::app {

struct Options {
  // kthena-router's flags
  std::string port = "8080";
  std::string tls_cert, tls_key;
  bool enable_webhook = true, enable_gateway_api = false, enable_inference_extension = false;
  int webhook_port = 8443;
  std::string webhook_tls_cert_file = "/etc/tls/tls.crt", webhook_tls_private_key_file = "/etc/tls/tls.key";
  std::string cert_secret_name = "kthena-router-webhook-certs", webhook_service_name = "kthena-router-webhook";
  int debug_port = 15000, metrics_port = 9090;
  bool expose_metrics_on_router_port = false;
  double kube_api_qps = 0;
  int kube_api_burst = 0;
  // klog
  int verbosity = 0;
  bool log_to_stderr = true;
  std::string log_file;
  bool also_log_to_stderr = false;
  int stderr_threshold = 2;       ///< 0 info, 1 warning, 2 error, 3 fatal; for log::Options likewise
  bool skip_log_headers = false;  ///< --skip_headers

  // ours
  std::optional<std::string> config;  ///< --config; absent: /etc/config/routerConfiguration.yaml
  std::string resources;              ///< --resources: standalone mode
  std::string kubeconfig;             ///< --kubeconfig, KUBECONFIG
  /// --compat=kthena or WARMROUTE_COMPAT. Off also when started as kthena-router (decisions 3): an image swap under
  /// the old chart gets it by the configuration file's key or the variable.
  bool compat_kthena = false;
  bool compat_given = false;  ///< by flag or variable: wins over the config file's key
  int workers = 0;            ///< 0: CPUs available
  bool step_times = false;    ///< for measuring: warmroute_worker_step… metrics
  std::string bind_address;   ///< empty: all
  bool check = false;
  bool forwarded_headers = false;
  bool half_close_answers = false;  ///< --client-half-close=answer (default cancel)
  std::string upstream_ca;
  bool upstream_insecure = false;
  std::chrono::milliseconds drain_delay{5000};
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds response_header_timeout{3600000};  ///< where the ModelServer has no timeout
  std::chrono::milliseconds stream_idle_timeout{600000};       ///< between bytes of an answer
  std::chrono::milliseconds total_timeout{0};                  ///< 0: none
  std::chrono::milliseconds client_head_timeout{15000};
  std::chrono::milliseconds client_body_timeout{30000};   ///< without progress
  std::chrono::milliseconds client_idle_timeout{120000};  ///< keep-alive
  std::chrono::milliseconds client_write_timeout{60000};  ///< without progress
  std::chrono::milliseconds upstream_idle_timeout{4000};  ///< below the engines' 5 s
  std::uint64_t max_head_bytes = 64 * 1024;
  std::uint64_t max_body_bytes = 64ULL << 20U;
  std::uint64_t max_buffered_bytes = 0;  ///< 0: a quarter of the memory
  std::uint64_t max_connections = 0;     ///< 0: derived from the descriptor limit
  std::optional<int> breaker_failures;   ///< 0: off; absent: 5, or 0 with --compat=kthena
  std::chrono::milliseconds breaker_open{2000}, breaker_open_max{60000}, breaker_ramp{10000};
  int breaker_probes = 3;
  int queue_length = 256;  ///< waiting requests per ModelServer; 0: none
  std::uint64_t queue_bytes = 64ULL << 20U;
  std::chrono::milliseconds queue_timeout{30000};
  std::chrono::milliseconds kube_watch_silence{90000}, kube_relist{300000};

  // environment
  std::string pod_namespace = "default";
  bool pod_namespace_given = false;
  std::chrono::milliseconds drain_timeout{300000};
  std::chrono::milliseconds scrape_interval{1000};
  bool access_log_enabled = true;
  bool access_log_json = false;
  std::string access_log_output = "stdout";

  /// "Flag: <name>, Value: <value>" lines, in order, for the log.
  std::vector<std::pair<std::string, std::string>> flag_values;
  /// Warnings and once-only notes to log after the logger runs (invalid variables, flags whose feature comes later).
  std::vector<std::string> warnings;
};

struct ParsedCommandLine {
  std::optional<Options> options;  ///< empty: print `text` (to stderr unless exit_code is 0) and exit
  int exit_code = 0;
  std::string text;
};

/// `environment` as in main's envp; nullptr: the process's.
[[nodiscard]] ParsedCommandLine parse_command_line(int argc, const char* const* argv,
                                                   const char* const* environment = nullptr);
[[nodiscard]] const char* version() noexcept;

}  // namespace warmroute::app
