#include "kube/config.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/base64.hpp"
#include "config/yaml_reader.hpp"
#include "kube/small_file.hpp"

namespace warmroute::kube {
namespace {

using config::Diagnostics;
using config::YamlNode;

/// One named entry of a list, with the folder that its relative paths start from.
struct Named {
  YamlNode node;
  std::string folder;
};

/// The named things of all files; of equal names the first counts.
struct Merged {
  std::string current_context;
  std::map<std::string, Named> clusters, users, contexts;
};

void collect(const YamlNode& list, const char* member, const std::string& folder, std::map<std::string, Named>& into) {
  for (const YamlNode& entry : list.items()) {
    const auto name = entry.required("name").strict_text();
    if (name) into.emplace(*name, Named{entry.get(member), folder});
  }
}

void merge(const YamlNode& document, const std::string& file, Merged& into) {
  const std::string folder = std::filesystem::absolute(file).parent_path().string();
  if (into.current_context.empty()) into.current_context = document.get("current-context").strict_text().value_or("");
  collect(document.get("clusters"), "cluster", folder, into.clusters);
  collect(document.get("users"), "user", folder, into.users);
  collect(document.get("contexts"), "context", folder, into.contexts);
}

std::string path_from(const std::string& folder, const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

/// NAME-data, decoded, beats NAME, a file.
void read_material(const Named& from, const std::string& name, std::string& pem, std::string& file) {
  const YamlNode data = from.node.get(name + "-data");
  if (const auto text = data.strict_text(); text && !text->empty()) {
    auto decoded = base::base64_decode(*text);
    if (!decoded) return data.error("is not base64");
    pem = std::move(*decoded);
    return;
  }
  file = path_from(from.folder, from.node.get(name).strict_text().value_or(""));
}

void read_cluster(const Named& cluster, Config& config) {
  const YamlNode server = cluster.node.required("server");
  if (const auto url = server.strict_text()) {
    const auto set = set_server(config, *url);
    if (!set) server.error(set.error().detail);
  }
  read_material(cluster, "certificate-authority", config.ca_pem, config.ca_file);
  config.insecure = cluster.node.get("insecure-skip-tls-verify").boolean().value_or(false);
  config.tls_server_name = cluster.node.get("tls-server-name").strict_text().value_or("");
  if (const YamlNode proxy = cluster.node.get("proxy-url"); proxy && !proxy.strict_text().value_or("").empty())
    proxy.error("is not supported");
}

ExecPlugin read_exec(const YamlNode& node, const std::string& folder) {
  ExecPlugin exec;
  const YamlNode version = node.required("apiVersion");
  exec.api_version = version.strict_text().value_or("");
  if (exec.api_version != "client.authentication.k8s.io/v1" &&
      exec.api_version != "client.authentication.k8s.io/v1beta1") {
    version.error("must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1, but is " +
                  version.describe());
  }
  exec.command = node.required("command").strict_text().value_or("");
  if (exec.command.find('/') != std::string::npos) exec.command = path_from(folder, exec.command);
  exec.args = node.get("args").string_list();
  for (const YamlNode& entry : node.get("env").items()) {
    exec.env.emplace_back(entry.required("name").strict_text().value_or(""),
                          entry.get("value").strict_text().value_or(""));
  }
  exec.provide_cluster_info = node.get("provideClusterInfo").boolean().value_or(false);
  exec.install_hint = node.get("installHint").strict_text().value_or("");
  const YamlNode mode = node.get("interactiveMode");
  if (mode.strict_text() == "Always") mode.error("nobody is there to answer: Always cannot be used");
  return exec;
}

void read_user(const Named& user, Config& config) {
  const YamlNode& node = user.node;
  config.token = node.get("token").strict_text().value_or("");
  config.token_file = path_from(user.folder, node.get("tokenFile").strict_text().value_or(""));
  read_material(user, "client-certificate", config.certificate_pem, config.certificate_file);
  read_material(user, "client-key", config.key_pem, config.key_file);
  if (const auto name = node.get("username").strict_text(); name && !name->empty())
    config.basic = *name + ":" + node.get("password").strict_text().value_or("");
  if (const YamlNode exec = node.get("exec")) config.exec = read_exec(exec, user.folder);
  for (const char* unsupported : {"auth-provider", "as", "as-uid", "as-groups", "as-user-extra"}) {
    if (const YamlNode found = node.get(unsupported)) found.error("is not supported");
  }
}

/// nullptr with a diagnostic when the context names something that no file defines.
const Named* look_up(const std::map<std::string, Named>& list, const YamlNode& reference, const char* what) {
  const auto name = reference.strict_text();
  const auto found = name ? list.find(*name) : list.end();
  if (found == list.end() || !found->second.node) {
    if (name) reference.error("there is no " + std::string(what) + " named " + reference.describe());
    return nullptr;
  }
  return &found->second;
}

std::string first_error(const Diagnostics& diagnostics) {
  const auto found = std::find_if(diagnostics.begin(), diagnostics.end(), [](const config::Diagnostic& diagnostic) {
    return diagnostic.severity == config::Diagnostic::Severity::error;
  });
  return found == diagnostics.end() ? "" : found->text();
}

struct Text {
  std::string name, text;
};

Result<Config> parse_all(const std::vector<Text>& files) {
  Diagnostics diagnostics;
  Merged merged;
  std::string names;
  for (const Text& file : files) {
    const auto yaml = config::YamlFile::parse(file.text, file.name, diagnostics);
    for (const YamlNode& document : yaml.documents()) merge(document, file.name, merged);
    names += (names.empty() ? "" : ":") + file.name;
  }
  if (const std::string error = first_error(diagnostics); !error.empty()) return value_error(error);
  if (merged.current_context.empty()) return value_error(names + ": current-context is not set");
  const auto context = merged.contexts.find(merged.current_context);
  if (context == merged.contexts.end())
    return value_error(names + ": there is no context named \"" + merged.current_context + "\"");
  const YamlNode& node = context->second.node;
  Config config;
  config.origin = names + ", context " + merged.current_context;
  if (const Named* cluster = look_up(merged.clusters, node.required("cluster"), "cluster"))
    read_cluster(*cluster, config);
  if (const YamlNode user = node.get("user"); user && !user.strict_text().value_or("").empty()) {
    if (const Named* found = look_up(merged.users, user, "user")) read_user(*found, config);
  }
  if (const auto ns = node.get("namespace").strict_text(); ns && !ns->empty()) config.ns = *ns;
  if (const std::string error = first_error(diagnostics); !error.empty()) return value_error(error);
  return config;
}

Result<Config> in_cluster(const Environment& environment) {
  Config config;
  config.origin = "in-cluster";
  const bool v6 = environment.service_host.find(':') != std::string::npos;
  const bool bare = v6 && environment.service_host.front() != '[';
  const std::string host = bare ? "[" + environment.service_host + "]" : environment.service_host;
  auto set = set_server(config, "https://" + host + ":" + environment.service_port);
  if (!set) return value_error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: " + set.error().detail);
  config.token_file = environment.service_account + "/token";
  config.ca_file = environment.service_account + "/ca.crt";
  if (const auto ns = read_small_file(environment.service_account + "/namespace"); ns && !trimmed(*ns).empty())
    config.ns = trimmed(*ns);
  return config;
}

std::vector<std::string> split_paths(const std::string& paths) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= paths.size();) {
    const std::size_t end = std::min(paths.find(':', at), paths.size());
    if (end > at) out.push_back(paths.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string variable(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): at the start, one thread
  return text == nullptr ? "" : text;
}

}  // namespace

Environment Environment::of_process() {
  Environment environment;
  environment.service_host = variable("KUBERNETES_SERVICE_HOST");
  environment.service_port = variable("KUBERNETES_SERVICE_PORT");
  environment.home = variable("HOME");
  return environment;
}

Result<void> set_server(Config& config, const std::string& url) {
  const auto refuse = [&](const char* why) -> Result<void> { return value_error("server " + url + ": " + why); };
  std::string rest = url;
  if (rest.starts_with("https://")) {
    rest.erase(0, 8);
  } else if (rest.starts_with("http://")) {
    rest.erase(0, 7);
    config.tls = false;
  } else if (rest.find("://") != std::string::npos) {
    return refuse("must begin with https:// or http://");
  }
  config.server = url;
  config.port = config.tls ? 443 : 80;
  const std::size_t slash = rest.find('/');
  if (slash != std::string::npos) {
    config.path_prefix = rest.substr(slash);
    rest.erase(slash);
  }
  while (config.path_prefix.ends_with('/')) config.path_prefix.pop_back();
  const std::size_t bracket = rest.rfind(']');
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    unsigned port = 0;
    const char* const begin = rest.data() + colon + 1;
    const char* const end = rest.data() + rest.size();
    const auto parsed = std::from_chars(begin, end, port);
    if (parsed.ec != std::errc() || parsed.ptr != end || port == 0 || port > 65535) return refuse("has no valid port");
    config.port = static_cast<std::uint16_t>(port);
    rest.erase(colon);
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  if (rest.empty() || rest.find_first_of(" @?#[]\r\n") != std::string::npos) return refuse("has no valid host");
  config.host = std::move(rest);
  return {};
}

Result<Config> parse_kubeconfig(const std::string& text, const std::string& name) { return parse_all({{name, text}}); }

Result<Config> load_kubeconfig(const std::string& paths) {
  const auto names = split_paths(paths);
  std::vector<Text> files;
  for (const std::string& name : names) {
    auto text = read_small_file(name);
    std::error_code ignored;
    if (!text && names.size() > 1 && !std::filesystem::exists(name, ignored)) continue;
    if (!text) return value_error("kubeconfig " + name + ": " + text.error().detail);
    files.push_back({name, std::move(*text)});
  }
  if (files.empty()) return value_error("kubeconfig " + paths + ": none of the files exists");
  return parse_all(files);
}

Result<Config> find_config(const std::string& kubeconfig, const Environment& environment) {
  std::error_code ignored;
  const bool in_pod = !environment.service_host.empty() && !environment.service_port.empty();
  if (in_pod && std::filesystem::exists(environment.service_account + "/token", ignored))
    return in_cluster(environment);
  if (!kubeconfig.empty()) return load_kubeconfig(kubeconfig);
  const std::string usual = environment.home + "/.kube/config";
  if (!environment.home.empty() && std::filesystem::exists(usual, ignored)) return load_kubeconfig(usual);
  return value_error(
      "nothing to follow: give --resources PATH (a YAML file or a folder), or run in a cluster, or name one by "
      "--kubeconfig or KUBECONFIG");
}

}  // namespace warmroute::kube
