// Lists and watch events, as whatever stands between us and the API server may deliver them. The first byte says of
// which kind the objects are; the first line is a list, the others are events.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "config/resource_objects.hpp"
#include "kube/object_cache.hpp"

namespace {

using namespace warmroute;  // NOLINT(google-build-using-namespace)

template <class T>
void feed(std::string_view text, typename kube::ObjectCache<T>::Read read) {
  kube::ObjectCache<T> cache(read, [](const config::Diagnostics& found) {
    if (!config::has_errors(found)) std::abort();  // an object that cannot be used without a reason
  });
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto before = kube::version_number(cache.resource_version());
    if (std::exchange(first, false)) {
      const auto page = kube::parse_list(line);
      if (!page) continue;
      cache.begin_list();
      for (const auto& item : page->items) cache.list_item(item);
      (void)cache.end_list(page->resource_version, false);
    } else if (const auto event = kube::parse_event(line)) {
      (void)kube::parse_error_status(event->object);
      (void)cache.event(event->type, event->object);
    }
    const auto after = kube::version_number(cache.resource_version());
    if (before != 0 && after != 0 && after < before) std::abort();  // never back
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      feed<model::Pod>(text, config::pod_of);
      break;
    case 1:
      feed<model::ModelServer>(text, config::model_server_of);
      break;
    default:
      feed<model::ModelRoute>(text, config::model_route_of);
  }
  return 0;
}
