#pragma once
// An API server in memory for what the webhook's certificate and the Lease need: one Secret, one webhook configuration,
// one Lease, with resource versions and conflicts. Answers come on the loop, like real ones.

#include <simdjson.h>

#include <boost/asio/post.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/base64.hpp"
#include "kube/api.hpp"
#include "status/lease_record.hpp"
#include "webhook/secret.hpp"

namespace warmroute::test {

class FakeCluster {
 public:
  explicit FakeCluster(net::io_context& loop) : io(loop) {}
  [[nodiscard]] kube::Api api() {
    return [this](kube::Request request) { return serve(this, std::move(request)); };
  }

  net::io_context& io;
  std::optional<webhook::StoredCertificate> secret;
  std::map<std::string, std::string> bundles;  ///< caBundle by webhook; empty map: no such configuration
  std::optional<status::LeaseRecord> lease;
  /// Refusals by "METHOD part-of-path"; 0: no answer at all.
  std::map<std::string, int> refuse;
  std::vector<std::string> asked;  ///< "METHOD path", in order
  std::vector<std::string> bodies;

  [[nodiscard]] std::size_t count(const std::string& start) const {
    std::size_t found = 0;
    for (const auto& each : asked) found += each.rfind(start, 0) == 0 ? 1 : 0;
    return found;
  }

 private:
  static net::Task<Result<kube::Response>> serve(FakeCluster* self, kube::Request request) {
    co_await boost::asio::post(self->io, net::use_task);
    self->asked.push_back(request.method + " " + request.path);
    self->bodies.push_back(request.body);
    for (const auto& [what, status] : self->refuse) {
      const auto space = what.find(' ');
      if (request.method != what.substr(0, space) || request.path.find(what.substr(space + 1)) == std::string::npos)
        continue;
      if (status == 0) co_return Error{Errc::refused, Source::internal, Retry::never, "connection refused"};
      co_return answer(status);
    }
    if (request.path.find("/secrets") != std::string::npos) co_return self->secrets(request);
    if (request.path.find("/leases") != std::string::npos) co_return self->leases(request);
    co_return self->configurations(request);
  }

  static kube::Response answer(int status, std::string body = "{}") {
    kube::Response response;
    response.status = status;
    response.body = std::move(body);
    response.reason = status == 403 ? "Forbidden" : "";
    return response;
  }
  std::string next_version() { return std::to_string(++version_); }

  [[nodiscard]] std::string secret_text() const {
    std::string text = webhook::secret_json("ns", "certs", *secret);
    const std::string mark = R"("metadata":{)";
    return text.insert(text.find(mark) + mark.size(), R"("resourceVersion":")" + secret->resource_version + "\",");
  }
  kube::Response secrets(const kube::Request& request) {
    if (request.method == "GET") return secret ? answer(200, secret_text()) : answer(404);
    auto sent = webhook::parse_secret(request.body);
    if (!sent) return answer(400);
    if (request.method == "POST") {
      if (secret) return answer(409);
    } else {
      if (!secret) return answer(404);
      if (sent->resource_version != secret->resource_version) return answer(409);
    }
    secret = *sent;
    secret->resource_version = next_version();
    return answer(request.method == "POST" ? 201 : 200, secret_text());
  }

  [[nodiscard]] std::string configuration_text() const {
    std::string text;
    for (const auto& [name, ca] : bundles) {
      std::string one = webhook::bundle_patch({name}, ca);
      one = one.substr(one.find('[') + 1);
      text += (text.empty() ? "" : ",") + one.substr(0, one.size() - 2);
    }
    return R"({"webhooks":[)" + text + "]}";
  }
  kube::Response configurations(const kube::Request& request) {
    if (bundles.empty()) return answer(404);
    if (request.method == "PATCH") {
      simdjson::dom::parser parser;
      const simdjson::dom::element root = parser.parse(request.body);
      for (const simdjson::dom::element hook : root["webhooks"].get_array()) {
        const std::string_view name = hook["name"], bundle = hook["clientConfig"]["caBundle"];
        bundles[std::string(name)] = base::base64_decode(bundle).value();
      }
    }
    return answer(200, configuration_text());
  }

  [[nodiscard]] std::string lease_text() const {
    std::string text = status::lease_patch(*lease, status::Moment{}, true);
    const std::string mark = R"("renewTime":")";
    const auto at = text.find(mark) + mark.size();
    return text.replace(at, text.find('"', at) - at, lease->renew_time);
  }
  kube::Response leases(const kube::Request& request) {
    if (request.method == "GET") return lease ? answer(200, lease_text()) : answer(404);
    auto sent = status::parse_lease(request.body);
    if (!sent) return answer(400);
    if (request.method == "POST") {
      if (lease) return answer(409);
    } else {
      if (!lease) return answer(404);
      if (sent->resource_version != lease->resource_version) return answer(409);
    }
    lease = *sent;
    lease->resource_version = next_version();
    return answer(request.method == "POST" ? 201 : 200, lease_text());
  }

  int version_ = 0;
};

}  // namespace warmroute::test
