// http: the engines share their cache by means of their own; the router keeps the order and adds nothing.

#include "pd/connector.hpp"

namespace warmroute::pd {
namespace {

class Http final : public Connector {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "http"; }
  void prefill(BodyEditor&, const Pairing&) const override {}
  [[nodiscard]] bool decode(BodyEditor&, const Pairing&, std::string_view) const override { return true; }
};

}  // namespace

const Connector& http_connector() noexcept {
  static const Http connector;
  return connector;
}

}  // namespace warmroute::pd
