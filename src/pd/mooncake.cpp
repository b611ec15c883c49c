// mooncake: another transfer engine under vLLM; the requests look like nixl's.

#include "pd/kv_transfer.hpp"

namespace warmroute::pd {

const Connector& mooncake_connector() noexcept {
  static const KvTransfer connector("mooncake");
  return connector;
}

}  // namespace warmroute::pd
