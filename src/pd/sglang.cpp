// sglang: both engines are asked at once and meet in a room: a random number, and for the decode engine the address
// of the prefill engine's bootstrap server.

#include "pd/connector.hpp"

namespace warmroute::pd {
namespace {

class Sglang final : public Connector {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "sglang"; }
  [[nodiscard]] Order order() const noexcept override { return Order::together; }
  void prefill(BodyEditor& editor, const Pairing& pairing) const override {
    editor.set("bootstrap_room", std::to_string(pairing.room));
  }
  [[nodiscard]] bool decode(BodyEditor& editor, const Pairing& pairing, std::string_view) const override {
    editor.set("bootstrap_room", std::to_string(pairing.room));
    editor.set("bootstrap_host", "\"" + std::string(pairing.prefill_ip) + "\"");
    return true;
  }
};

}  // namespace

const Connector& sglang_connector() noexcept {
  static const Sglang connector;
  return connector;
}

}  // namespace warmroute::pd
