#include "kube/status.hpp"

#include <simdjson.h>

#include "kube/client.hpp"

namespace warmroute::kube {

void read_status(std::string_view body, Response& response) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS || !root.is_object()) return;
  std::string_view text;
  if (root["reason"].get(text) == simdjson::SUCCESS) response.reason = text;
  if (root["message"].get(text) == simdjson::SUCCESS) response.message = text;
  std::int64_t seconds = 0;
  if (!response.retry_after && root["details"]["retryAfterSeconds"].get(seconds) == simdjson::SUCCESS && seconds > 0 &&
      seconds < 86400)
    response.retry_after = std::chrono::seconds(seconds);
}

}  // namespace warmroute::kube
