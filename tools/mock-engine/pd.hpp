#pragma once
// The two roles of a prefill/decode pair. What the router sends is checked: a request that the protocol of the
// connector does not allow is refused with 400 and written to standard error, so that no test passes by luck.

#include <simdjson.h>
#include <map>
#include <optional>
#include <string>

#include "job.hpp"
#include "options.hpp"

namespace warmroute::mock {

/// Fills the members of `job` that concern the role. \return what is wrong with the request.
[[nodiscard]] std::optional<std::string> read_pd(const simdjson::dom::element& root, const Options& options, Job& job);

/// The answer of a prefill engine: with kv_transfer_params where the connector has them.
void add_transfer_params(std::string& body, const Options& options, const Job& job);

/// The rooms of SGLang's bootstrap server: prefill opens one, decode fetches from it, prefill answers then.
class Rooms {
 public:
  struct Room {
    bool computed = false;  ///< the prompt's cache is there
    bool fetched = false;   ///< the decode engine took it
  };
  /// Open while it lives.
  class Stay {
   public:
    Stay(Rooms& rooms, std::string name) : rooms_(rooms), name_(std::move(name)) { rooms_.rooms_[name_] = {}; }
    ~Stay() { rooms_.rooms_.erase(name_); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    [[nodiscard]] Room& room() { return rooms_.rooms_[name_]; }

   private:
    Rooms& rooms_;
    std::string name_;
  };
  [[nodiscard]] Room* find(const std::string& name) {
    const auto found = rooms_.find(name);
    return found == rooms_.end() ? nullptr : &found->second;
  }

 private:
  std::map<std::string, Room> rooms_;
};

}  // namespace warmroute::mock
