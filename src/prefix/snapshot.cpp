#include "prefix/snapshot.hpp"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace warmroute::prefix {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::string_view magic = "wrPREFIX";
constexpr std::uint32_t version = 1;
constexpr std::uint32_t tools_flag = 1;
constexpr std::size_t entry_bytes = sizeof(std::uint64_t) + sizeof(ModelNumber);

template <class Number>
void put(std::string& out, Number value) {
  static_assert(std::is_integral_v<Number>);
  std::array<char, sizeof value> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  out.append(bytes.data(), bytes.size());
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out.append(text);
}

std::uint64_t checksum(std::string_view bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

/// Reads from the front; once something is missing, everything is.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) noexcept : rest_(bytes) {}

  template <class Number>
  Number get() noexcept {
    Number value{};
    if (rest_.size() < sizeof value) {
      good_ = false;
      rest_ = {};
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  /// A count of things of at least `each` bytes, which must be there.
  std::size_t get_count(std::size_t each) noexcept {
    const auto count = std::size_t{get<std::uint32_t>()};
    if (count > rest_.size() / each) good_ = false;
    return good_ ? count : 0;
  }
  std::string get_text() {
    const std::size_t size = get_count(1);
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::string encode_snapshot(const Snapshot& snapshot) {
  std::string out;
  std::size_t entries = 0;
  for (const auto& pod : snapshot.pods) entries += pod.blocks.size();
  out.reserve(256 + entries * entry_bytes + snapshot.pods.size() * 128);
  out.append(magic);
  put(out, version);
  put(out, snapshot.block_bytes);
  put(out, snapshot.tools_hashed ? tools_flag : std::uint32_t{0});
  put(out, snapshot.seed);
  put(out, snapshot.written_at);
  put(out, static_cast<std::uint32_t>(snapshot.models.size()));
  put(out, static_cast<std::uint32_t>(snapshot.pods.size()));
  for (const auto& model : snapshot.models) put_text(out, model);
  for (const auto& pod : snapshot.pods) {
    put_text(out, pod.incarnation);
    put(out, static_cast<std::uint32_t>(pod.blocks.size()));
    for (const auto& [hash, model] : pod.blocks) {
      put(out, hash);
      put(out, model);
    }
  }
  put(out, checksum(out));
  return out;
}

Result<Snapshot> decode_snapshot(std::string_view bytes) {
  if (!bytes.starts_with(magic)) return value_error("not a snapshot of the prefix index");
  Cursor in(bytes.substr(magic.size()));
  const auto found_version = in.get<std::uint32_t>();
  if (!in.good()) return value_error("cut off");
  if (found_version != version) return value_error("version " + std::to_string(found_version) + ", not 1");
  if (bytes.size() < magic.size() + sizeof(version) + sizeof(std::uint64_t)) return value_error("cut off");
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
  if (sum != checksum(body)) return value_error("damaged or cut off: the checksum is wrong");

  in = Cursor(body.substr(magic.size() + sizeof(version)));
  Snapshot snapshot;
  snapshot.block_bytes = in.get<std::uint32_t>();
  snapshot.tools_hashed = (in.get<std::uint32_t>() & tools_flag) != 0;
  snapshot.seed = in.get<std::uint64_t>();
  snapshot.written_at = in.get<std::int64_t>();
  const std::size_t models = in.get_count(1);
  const std::size_t pods = in.get_count(1);
  const Error malformed = value_error("malformed behind a right checksum");
  if (!in.good() || models > std::size_t{std::numeric_limits<ModelNumber>::max()} + 1) return malformed;
  for (std::size_t i = 0; i < models && in.good(); ++i) snapshot.models.push_back(in.get_text());
  for (std::size_t i = 0; i < pods && in.good(); ++i) {
    Snapshot::Pod pod;
    pod.incarnation = in.get_text();
    const std::size_t entries = in.get_count(entry_bytes);
    pod.blocks.reserve(entries);
    for (std::size_t k = 0; k < entries; ++k) {
      const auto hash = in.get<std::uint64_t>();
      pod.blocks.push_back({hash, in.get<ModelNumber>()});
      if (pod.blocks.back().model >= models) return malformed;
    }
    snapshot.pods.push_back(std::move(pod));
  }
  if (!in.good() || !in.at_end()) return malformed;
  return snapshot;
}

}  // namespace warmroute::prefix
