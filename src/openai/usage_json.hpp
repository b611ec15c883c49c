#pragma once
// Token usage inside JSON: of one event, or of a whole body that is only watched as it passes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "openai/either_byte.hpp"

namespace warmroute::openai {

enum class Protocol : std::uint8_t { openai, responses, anthropic };

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, total_tokens = 0;
  std::int64_t cached_tokens = -1;  ///< prompt_tokens_details.cached_tokens; -1: not reported
  bool seen = false;
};

/// What one event's data says.
struct UsageEvent {
  Usage usage;               ///< `seen`: there was a well-formed usage object
  bool has_choices = false;  ///< `choices` is a list with elements
  std::string type;          ///< `type`, empty unless it is a short string
};

/// Reads `usage` (and, by protocol, `response.usage` or `message.usage`; of several the last that is not null) of one
/// JSON object. \return false: not a JSON object, or a member that is read has the wrong type.
[[nodiscard]] bool read_usage_event(std::string_view json, Protocol protocol, UsageEvent& out);

/// Reads a usage object alone. \return false: malformed or of wrong types.
[[nodiscard]] bool read_usage_object(std::string_view json, Protocol protocol, Usage& out);

/// Takes over a later usage of the same answer: the last that is not zero counts, for Anthropic each half by itself.
void merge_usage(Usage& into, const Usage& from, Protocol protocol);

/// Finds the top-level member `usage` of a JSON object that passes in pieces; keeps nothing else of it. Gives up
/// silently on anything that is not JSON. The last usage object with a total above zero counts.
class JsonUsageCapture {
 public:
  void feed(std::string_view piece, Protocol protocol, Usage& usage);
  /// The same for a body that is there as a whole, without walking through all of it: looks for the last `usage` and
  /// makes sure that the body's own object ends with it. \return false: not decided, feed() it.
  [[nodiscard]] static bool read_whole(std::string_view body, Protocol protocol, Usage& usage);

  /// A larger usage object is not read.
  static constexpr std::size_t capture_limit = std::size_t{16} * 1024;

 private:
  static constexpr std::string_view usage_name = "usage";
  enum class Expect : std::uint8_t { root, name, colon, value, separator };

  [[nodiscard]] const char* skip_string(const char* p, const char* end, EitherByte& quotes);
  void on_byte(char c);
  void keep(const char* from, const char* to);
  void end_capture(Protocol protocol, Usage& usage);

  std::string captured_;  ///< of the usage object, up to a little over the limit
  std::string name_;      ///< first bytes of the member name at depth 1
  std::size_t depth_ = 0;
  Expect expect_ = Expect::root;  ///< at depth 0 and 1
  bool inside_string_ = false;
  bool escaped_ = false;  ///< the byte before was a backslash that escapes
  bool reading_name_ = false;
  bool capturing_ = false;
  bool done_ = false;  ///< the object has ended, or this is not JSON
};

}  // namespace warmroute::openai
