#include "kube/exec_plugin.hpp"

#include <simdjson.h>

#include "base/base64.hpp"
#include "config/resource_json.hpp"
#include "config/rfc3339.hpp"
#include "kube/child_process.hpp"

namespace warmroute::kube {
namespace {

Error bad(std::string detail) { return Error{Errc::bad_value, Source::internal, Retry::never, std::move(detail)}; }

std::string text_of(const simdjson::dom::element& parent, std::string_view key) {
  std::string_view value;
  if (parent[key].get(value) != simdjson::SUCCESS) return {};
  return std::string(value);
}

}  // namespace

Result<ExecCredential> parse_exec_credential(const std::string& json, const std::string& api_version) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(json).get(root) != simdjson::SUCCESS || !root.is_object())
    return bad("does not print an ExecCredential");
  if (text_of(root, "kind") != "ExecCredential") return bad("prints something that is no ExecCredential");
  if (const auto version = text_of(root, "apiVersion"); version != api_version)
    return bad("prints apiVersion \"" + version + "\", not " + api_version);
  simdjson::dom::element status;
  if (root["status"].get(status) != simdjson::SUCCESS || !status.is_object()) return bad("prints no status");
  ExecCredential credential;
  credential.token = text_of(status, "token");
  credential.certificate_pem = text_of(status, "clientCertificateData");
  credential.key_pem = text_of(status, "clientKeyData");
  if (credential.certificate_pem.empty() != credential.key_pem.empty())
    return bad("prints clientCertificateData and clientKeyData not together");
  if (credential.token.empty() && credential.certificate_pem.empty())
    return bad("prints neither a token nor a client certificate");
  if (const auto expires = text_of(status, "expirationTimestamp"); !expires.empty()) {
    credential.expires = config::parse_rfc3339(expires);
    if (!credential.expires) return bad("prints an expirationTimestamp that is no time");
  }
  return credential;
}

std::string exec_info(const Config& config, const std::string& ca_pem) {
  warmroute::config::detail::JsonWriter info;
  info.begin_object().key("kind").text("ExecCredential").key("apiVersion").text(config.exec->api_version);
  info.key("spec").begin_object().key("interactive").boolean(false);
  if (config.exec->provide_cluster_info) {
    info.key("cluster").begin_object().key("server").text(config.server);
    if (!config.tls_server_name.empty()) info.key("tls-server-name").text(config.tls_server_name);
    if (config.insecure) info.key("insecure-skip-tls-verify").boolean(true);
    if (!ca_pem.empty()) info.key("certificate-authority-data").text(base::base64_encode(ca_pem));
    info.end_object();
  }
  info.end_object().end_object();
  return info.take();
}

net::Task<Result<ExecCredential>> run_exec_plugin(net::io_context& io, Config config, std::string ca_pem,
                                                  std::chrono::milliseconds timeout) {
  Command command;
  command.program = config.exec->command;
  command.args = config.exec->args;
  for (const auto& [name, value] : config.exec->env) {
    command.extra_env.push_back(name);
    command.extra_env.back() += "=" + value;
  }
  command.extra_env.push_back("KUBERNETES_EXEC_INFO=" + exec_info(config, ca_pem));
  command.timeout = timeout;
  auto output = co_await run_command(io, std::move(command));
  const std::string who = "exec plugin " + config.exec->command + ": ";
  if (!output) {
    Error error = output.error();
    error.detail = who + error.detail;
    if (error.code == Errc::io && !config.exec->install_hint.empty()) error.detail += "; " + config.exec->install_hint;
    co_return error;
  }
  auto credential = parse_exec_credential(*output, config.exec->api_version);
  if (!credential) {
    Error error = credential.error();
    error.detail = who + error.detail;
    co_return error;
  }
  co_return credential;
}

}  // namespace warmroute::kube
