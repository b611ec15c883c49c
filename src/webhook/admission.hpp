#pragma once
// One AdmissionReview in, one out. No I/O.

#include <string>
#include <string_view>

namespace warmroute::webhook {

struct Answer {
  int status = 200;
  std::string content_type;
  std::string body;
  bool allowed = false;  ///< with status 200
};

/// \param path e.g. /validate/modelroute. An unknown path is 404; a body that cannot be read is 400 with the reason;
/// everything else is 200 with the review as received and its `response`.
/// \param content_type must be application/json without parameters, as kthena-router asks.
[[nodiscard]] Answer review(std::string_view path, std::string_view content_type, std::string_view body);

}  // namespace warmroute::webhook
