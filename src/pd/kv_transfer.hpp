#pragma once
// The kv_transfer_params protocol of vLLM, which nixl and mooncake speak.

#include "pd/connector.hpp"

namespace warmroute::pd {

class KvTransfer final : public Connector {
 public:
  explicit KvTransfer(std::string_view name) noexcept : name_(name) {}
  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] bool reads_answer() const noexcept override { return true; }
  void prefill(BodyEditor& editor, const Pairing& pairing) const override;
  [[nodiscard]] bool decode(BodyEditor& editor, const Pairing& pairing, std::string_view answer) const override;

 private:
  std::string_view name_;
};

}  // namespace warmroute::pd
