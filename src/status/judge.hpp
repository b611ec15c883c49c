#pragma once
// What we think of the routes and servers that we know: the conditions that their status should show. Pure.
//
// | kind        | type         | False because of                                                      |
// |-------------|--------------|-----------------------------------------------------------------------|
// | ModelRoute  | ResolvedRefs | ModelServerNotFound                                                   |
// | ModelRoute  | Ready        | Invalid, NotSupported, ModelServerNotFound (all of them), NoReadyPods |
// | ModelServer | Ready        | Invalid, NoPodSelected, NoReadyPods, NoCompleteGroup                  |
//
// Messages hold no counts: those would change, and be written, with every pod.

#include <string>
#include <vector>

#include "model/resources.hpp"
#include "model/snapshot.hpp"
#include "status/condition.hpp"

namespace warmroute::status {

enum class Kind : std::uint8_t { model_route, model_server };
inline constexpr std::size_t kinds = 2;
[[nodiscard]] const char* name(Kind kind) noexcept;
[[nodiscard]] const char* plural(Kind kind) noexcept;

struct Verdict {
  Kind kind = Kind::model_route;
  std::string ns, name, uid;
  std::size_t spec = 0;  ///< fingerprint of what was judged; 0: it cannot be used
  std::vector<Condition> conditions;
};

/// Of an object of the API server, as its spec is understood here; 0: it is not.
[[nodiscard]] std::size_t fingerprint(Kind kind, const std::string& json);

/// Of an object that is left out, as no version of it can be used. \param key NAMESPACE/NAME
[[nodiscard]] Verdict judge_unusable(Kind kind, const std::string& key, const std::string& uid, std::string problem);

/// \param resources everything known, pods that are not ready included. \param snapshot made of it.
[[nodiscard]] std::vector<Verdict> judge(const model::ResourceSet& resources, const model::Snapshot& snapshot);

}  // namespace warmroute::status
