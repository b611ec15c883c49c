#include "random/random.hpp"

namespace warmroute::plugins {
namespace {

class Random final : public ScorePlugin {
 public:
  explicit Random(Host& host) : host_(host) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "random"; }

  bool score(const RequestView&, RequestState*, std::span<const PodView>,
             std::span<std::int64_t> scores) const override {
    for (auto& score : scores) score = static_cast<std::int64_t>(host_.random() % 101);  // the bias is below 2^-57
    return true;
  }

 private:
  Host& host_;
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_random(const Args& args, Host& host) {
  warn_unknown_args("random", args, {}, host);
  return std::shared_ptr<Plugin>(std::make_shared<Random>(host));
}

}  // namespace warmroute::plugins
