#pragma once
// What Go's URL parser makes of an external provider's baseURL, as far as the webhook asks.

#include <string_view>

namespace warmroute::webhook {

enum class BaseUrl {
  good,
  not_https,  ///< does not parse, has another scheme or no host
  has_extras  ///< user information, a query or a fragment
};
[[nodiscard]] BaseUrl judge_base_url(std::string_view url);

}  // namespace warmroute::webhook
