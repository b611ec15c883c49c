#include "model/request_record.hpp"

#include <array>

namespace warmroute::model {
namespace {
constexpr std::array<std::string_view, path_label_count> names = {
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",     "/v1/embeddings",
    "/v1/rerank",           "/v1/score",       "/v1/models",    "/v1/audio/speech", "other"};
}  // namespace

PathLabel path_label(std::string_view decoded_path) noexcept {
  for (std::size_t i = 0; i + 1 < names.size(); ++i)
    if (names[i] == decoded_path) return static_cast<PathLabel>(i);
  return PathLabel::other;
}

std::string_view name(PathLabel label) noexcept { return names[static_cast<std::size_t>(label)]; }

}  // namespace warmroute::model
