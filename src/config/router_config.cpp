#include "config/router_config.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "config/yaml_reader.hpp"

namespace warmroute::config {
namespace {

constexpr std::string_view parse_prefix = "failed to parse router config: ";
constexpr std::string_view shape_prefix = "failed to Unmarshal routerConfiguration: ";
constexpr std::string_view load_prefix = "failed to Load Scheduler: ";
constexpr std::size_t max_file_bytes = 16U << 20U;

/// Go's %q, as far as names need it.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Go's %v of a float64: shortest digits, an exponent below 1e-4 and from 1e21 on.
std::string go_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  const double magnitude = std::fabs(value);
  const bool plain = value == 0 || (magnitude >= 1e-4 && magnitude < 1e21);
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                          plain ? std::chars_format::fixed : std::chars_format::scientific);
  return error == std::errc{} ? std::string(buffer.data(), end) : fmt::format("{}", value);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file_name) {
    YamlLimits limits;
    limits.first_document_only = true;
    limits.text_bytes = max_file_bytes;
    file_ = YamlFile::parse(text, file_name, outcome_.diagnostics, limits);
  }

  RouterConfigOutcome run() {
    if (file_.valid()) {
      const YamlNode root = file_.documents().empty() ? YamlNode() : file_.documents().front();
      read_scheduler(root.get("scheduler"));
      read_auth(root.get("auth"));
      read_compat(root.get("compat"));
      config_.pd_threshold_tokens =
          root.get("pdThresholdTokens").integer(0, std::numeric_limits<std::int32_t>::max()).value_or(0);
      file_.report_unread();
    }
    // What does not parse is told before what does not load, as the Go router does.
    for (const Diagnostic& diagnostic : outcome_.diagnostics) {
      if (diagnostic.severity != Diagnostic::Severity::error) continue;
      fail(std::string(parse_prefix) + std::string(shape_prefix) +
           (exact_detail_.empty() ? diagnostic.text() : exact_detail_));
      return std::move(outcome_);
    }
    for (const Finding& finding : load_findings_) finding.node.error(finding.message);
    if (!load_findings_.empty()) {
      fail(load_findings_.front().stop);
      return std::move(outcome_);
    }
    outcome_.config = std::move(config_);
    return std::move(outcome_);
  }

 private:
  struct Finding {
    YamlNode node;
    std::string message;  ///< for the diagnostics
    std::string stop;     ///< the whole message
  };

  void fail(std::string message) { outcome_.error = std::move(message); }

  void load_finding(const YamlNode& node, std::string_view stage, std::string message) {
    std::string stop = std::string(stage) + message;
    load_findings_.push_back({node, std::move(message), std::move(stop)});
  }

  /// Messages whose text is fixed carry no place; the diagnostics do.
  void exact_error(const YamlNode& node, const std::string& detail) {
    if (!has_errors(outcome_.diagnostics)) exact_detail_ = detail;
    node.error(detail);
  }

  void read_scheduler(const YamlNode& scheduler) {
    // Weights are judged before arguments, whatever stands first in the file.
    const YamlNode plugin_config = scheduler.get("pluginConfig");
    const YamlNode plugins = scheduler.get("plugins");
    const YamlNode filter = plugins.get("Filter");
    const YamlNode enabled_filters = filter.get("enabled");
    config_.pipeline.filters = read_names(enabled_filters);
    for (const std::string& name : config_.pipeline.filters) check_supported(enabled_filters, name);
    (void)read_names(filter.get("disabled"));  // the shape is checked, the content has no effect
    const YamlNode score = plugins.get("Score");
    read_scores(score.get("enabled"), true);
    read_scores(score.get("disabled"), false);
    for (const YamlNode& element : plugin_config.items()) read_plugin_config(element);
    check_least_latency();
  }

  static std::vector<std::string> read_names(const YamlNode& list) {
    std::vector<std::string> names;
    for (const YamlNode& item : list.items()) {
      if (auto name = item.text()) names.push_back(*std::move(name));  // a null entry is no entry
    }
    return names;
  }

  void read_scores(const YamlNode& list, bool enabled) {
    for (const YamlNode& item : list.items()) {
      if (item.is_null()) continue;
      std::string name = item.get("name").text().value_or("");
      const YamlNode weight = item.get("weight");
      const std::int64_t value = weight.truncated_integer().value_or(0);
      if (!enabled) continue;
      if (value <= 0) {
        load_finding(weight.is_absent() ? item : weight, std::string(load_prefix) + "failed to Unmarshal Plugins: ",
                     fmt::format("score plugin {} must set a weight greater than 0, got {}", quoted(name), value));
      }
      check_supported(item, name);
      config_.pipeline.scores.push_back({std::move(name), value});
    }
  }

  void check_supported(const YamlNode& node, std::string_view name) {
    if (name == "kvcache-aware") load_finding(node, {}, "kvcache-aware is not supported by this build");
  }

  void read_plugin_config(const YamlNode& element) {
    if (element.is_null()) return;
    if (!element.is_map()) {
      exact_error(element, "plugin configuration must be a mapping");
      return;
    }
    const YamlNode name_node = element.get("name");
    if (name_node && !name_node.is_scalar()) {
      exact_error(name_node, "decode plugin name: must be a string, got " + name_node.describe());
      return;
    }
    const YamlNode args = element.get("args");
    const std::string name = name_node.text().value_or("");
    std::string origin = args.file().empty() ? std::string() : fmt::format("{}:{}", args.file(), args.line());
    config_.pipeline.args.insert_or_assign(name, Args(args.to_value(), std::move(origin)));
    if (name == "least-latency") least_latency_ = args;
  }

  /// Whether the plugin is enabled or not, as in the Go router.
  void check_least_latency() {
    const auto found = config_.pipeline.args.find("least-latency");
    if (found == config_.pipeline.args.end()) return;
    const Args& args = found->second;
    const auto bad = [this](std::string_view why) {
      load_finding(least_latency_, std::string(load_prefix) + "failed to Unmarshal PluginsConfig: ",
                   fmt::format("invalid least-latency plugin configuration: {}", why));
    };
    if (!args.readable()) {
      bad(fmt::format("unmarshal least-latency arguments: must be a mapping, got {}", args.root().type_name()));
      return;
    }
    const auto factor = args.number("TTFTTPOTWeightFactor");
    if (!factor) {
      bad("unmarshal least-latency arguments: " + factor.error().detail);
    } else if (*factor && !(**factor >= 0 && **factor <= 1)) {  // NaN fails both
      bad("TTFTTPOTWeightFactor must be a finite value between 0 and 1, got " + go_float(**factor));
    }
  }

  void read_auth(const YamlNode& auth) {
    config_.issuer = auth.get("issuer").text().value_or("");
    config_.audiences = read_names(auth.get("audiences"));
    const YamlNode jwks_uri = auth.get("jwksUri");
    config_.jwks_uri = jwks_uri.text().value_or("");
    if (!config_.jwks_uri.empty()) load_finding(jwks_uri, {}, "auth is not supported by this build");
  }

  void read_compat(const YamlNode& compat) {
    const std::string value = compat.text().value_or("");
    if (value == "kthena") {
      config_.compat_kthena = true;
    } else if (!value.empty() && value != "none") {
      compat.error(fmt::format("must be kthena or none, got {}", quoted(value)));
    }
  }

  RouterConfigOutcome outcome_;
  YamlFile file_;
  RouterConfig config_;
  YamlNode least_latency_;
  std::vector<Finding> load_findings_;
  std::string exact_detail_;
};

/// As Go words it: `open PATH: no such file or directory`.
std::string os_error(const char* operation, const std::string& path, int code) {
  std::string text = std::generic_category().message(code);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return fmt::format("{} {}: {}", operation, path, text);
}

/// \return empty when read, else why not.
std::string read_file(const std::string& path, std::string& text) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return os_error("open", path, errno);
  std::array<char, 16384> buffer{};
  std::string why;
  while (text.size() <= max_file_bytes) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      why = os_error("read", path, errno);
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(fd);
  return why;
}

}  // namespace

RouterConfigOutcome parse_router_config(std::string_view text, const std::string& file_name) {
  return Reader(text, file_name).run();
}

RouterConfigOutcome load_router_config(const std::string& path) {
  std::string text;
  const std::string why = read_file(path, text);
  if (why.empty()) return parse_router_config(text, path);
  RouterConfigOutcome outcome;
  outcome.error = fmt::format("{}failed to read config file {}: {}", parse_prefix, path, why);
  outcome.diagnostics.push_back({Diagnostic::Severity::error, path, 0, 0, {}, "cannot be read: " + why});
  return outcome;
}

std::string_view default_router_config() noexcept {
  // Equal to config/routerConfiguration.yaml; a test compares them.
  return R"yaml(# Read once at start. Argument names are matched without regard to case; an omitted argument has its default.
scheduler:
  pluginConfig:
  - name: least-request
    args:
      maxWaitingRequests: 10
  - name: least-latency
    args:
      TTFTTPOTWeightFactor: 0.5
  - name: prefix-cache
    args:
      blockSizeToHash: 64
      maxBlocksToMatch: 128
      maxHashCacheSize: 50000
      topKMatches: 5
  plugins:
    Filter:
      enabled:
      - least-request
      disabled:
      - lora-affinity
    Score:
      enabled:
      - name: least-request
        weight: 1
      - name: gpu-usage
        weight: 1
      - name: least-latency
        weight: 1
      - name: prefix-cache
        weight: 1
)yaml";
}

}  // namespace warmroute::config
