// nixl: the prefill engine is asked to keep the blocks for a remote decode and answers where they are
// (kv_transfer_params); the decode engine gets that answer, byte for byte, so that 64-bit ids survive.

#include "base/log.hpp"
#include "pd/kv_transfer.hpp"

namespace warmroute::pd {

void KvTransfer::prefill(BodyEditor& editor, const Pairing&) const {
  editor.set("kv_transfer_params", R"({"do_remote_decode":true,"do_remote_prefill":false})");
}

bool KvTransfer::decode(BodyEditor& editor, const Pairing&, std::string_view answer) const {
  auto params = member_of(answer, "kv_transfer_params");
  if (!params) return false;
  if (params->empty()) {
    log::warning("connector {}: the prefill pod answered without kv_transfer_params", name());
    params = "null";  // the decode engine computes the prompt itself
  }
  editor.set("kv_transfer_params", std::move(*params));
  return true;
}

const Connector& nixl_connector() noexcept {
  static const KvTransfer connector("nixl");
  return connector;
}

}  // namespace warmroute::pd
