#include "prefer_pod.hpp"

#include <array>
#include <string>
#include <utility>

namespace warmroute::plugins {
namespace {

constexpr std::array<std::string_view, 1> known_args{"suffix"};

class PreferPod final : public ScorePlugin {
 public:
  explicit PreferPod(std::string suffix) : suffix_(std::move(suffix)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "prefer-pod"; }

  bool score(const RequestView&, RequestState*, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    if (suffix_.empty()) return false;  // nothing to say: every pod counts as 0
    for (std::size_t i = 0; i < pods.size(); ++i) scores[i] = pods[i].name.ends_with(suffix_) ? 100 : 0;
    return true;
  }

  [[nodiscard]] Value explain(const RequestView&, std::span<const PodView>) const override {
    return Value{Value::Map{{"preferredSuffix", Value{suffix_}}}};
  }

 private:
  const std::string suffix_;
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_prefer_pod(const Args& args, Host& host) {
  warn_unknown_args("prefer-pod", args, known_args, host);
  const auto suffix = args.text("suffix");
  if (!suffix) return suffix.error();
  return std::shared_ptr<Plugin>(std::make_shared<PreferPod>(suffix->value_or("")));
}

}  // namespace warmroute::plugins
