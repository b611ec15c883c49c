#pragma once
// How the two engines of a prefill/decode pair are told about each other (data-plane spec 10): what is changed in the
// client's request for each, and in which order they are asked. One file per connector; docs/pd.md has the table.
// Stateless, shared by all workers. Previous step: schedule/pairs.cpp, next: proxy/pd_forward.cpp.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/request_record.hpp"
#include "model/resources.hpp"
#include "pd/body_members.hpp"

namespace warmroute::pd {

enum class Order : std::uint8_t {
  prefill_first,  ///< decode is asked when the prefill pod's answer is complete
  together        ///< both at once: the engines wait for each other
};

/// What the two requests of one try share.
struct Pairing {
  std::string_view prefill_ip;  ///< textual, without port and brackets
  std::uint64_t room = 0;       ///< below 2^63, random, new for each try
};

class Connector {
 public:
  virtual ~Connector() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual Order order() const noexcept { return Order::prefill_first; }
  /// decode() reads the body of the prefill pod's answer.
  [[nodiscard]] virtual bool reads_answer() const noexcept { return false; }

  /// What the prefill pod is told beside the common changes of prefill_edits().
  virtual void prefill(BodyEditor& editor, const Pairing& pairing) const = 0;
  /// \param answer body of the prefill pod's answer, followed by openai::body_padding readable bytes; empty unless
  /// reads_answer(). \return false: the answer is not what it must be; the decode pod must not be asked.
  [[nodiscard]] virtual bool decode(BodyEditor& editor, const Pairing& pairing, std::string_view answer) const = 0;
};

/// By kvConnector.type; without one by the engine.
[[nodiscard]] const Connector& connector_for(const model::ModelServer& server) noexcept;

/// Appends the edits of the prefill request: one token, no stream, and what the connector adds.
void prefill_edits(const Connector& connector, const BodyMembers& members, const Pairing& pairing,
                   model::PathLabel path, std::vector<http::Edit>& out);
/// Appends the edits of the decode request. \return as Connector::decode().
[[nodiscard]] bool decode_edits(const Connector& connector, const BodyMembers& members, const Pairing& pairing,
                                std::string_view answer, std::vector<http::Edit>& out);

// One per file.
[[nodiscard]] const Connector& http_connector() noexcept;
[[nodiscard]] const Connector& lmcache_connector() noexcept;
[[nodiscard]] const Connector& nixl_connector() noexcept;
[[nodiscard]] const Connector& mooncake_connector() noexcept;
[[nodiscard]] const Connector& sglang_connector() noexcept;

}  // namespace warmroute::pd
