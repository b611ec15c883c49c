#pragma once
// A map from label values to series for one thread: open addressing, bounded; when it is full it starts anew.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroute::metrics {

/// Joins label values to one key. Lengths go in front, so that no value can imitate a border.
class KeyBuilder {
 public:
  KeyBuilder& start() {
    key_.clear();
    return *this;
  }
  KeyBuilder& add(std::string_view text) {
    number(static_cast<std::uint32_t>(text.size()));
    key_.append(text);
    return *this;
  }
  KeyBuilder& number(std::uint32_t value) {
    key_.append({static_cast<char>(value & 0xff), static_cast<char>(value >> 8 & 0xff),
                 static_cast<char>(value >> 16 & 0xff), static_cast<char>(value >> 24)});
    return *this;
  }
  [[nodiscard]] std::string_view key() const noexcept { return key_; }

 private:
  std::string key_;
};

template <class Value>
class KeyCache {
 public:
  /// Beyond this many it starts anew: configurations with more combinations of labels in use pay a look into the
  /// registry now and then.
  static constexpr std::size_t limit = 48 * 1024;

  [[nodiscard]] Value* find(std::string_view key) noexcept {
    if (table_.empty()) return nullptr;
    const std::size_t hash = hash_of(key);
    for (std::size_t i = hash;; ++i) {
      Entry& entry = at(i);
      if (!entry.used) return nullptr;
      if (entry.hash == hash && entry.key == key) return &entry.value;
    }
  }
  /// The key must not be there. Values found before may be gone afterwards.
  Value& insert(std::string_view key, Value value) {
    if (size_ >= limit) clear();
    if (size_ >= table_.size() / 4 * 3) grow();
    ++size_;
    return place(Entry{true, hash_of(key), std::string(key), std::move(value)});
  }
  void clear() noexcept {
    table_.clear();
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Entry {
    bool used = false;
    std::size_t hash = 0;
    std::string key;
    Value value;
  };
  // Sizes are powers of two.
  [[nodiscard]] Entry& at(std::size_t i) noexcept { return table_[i & (table_.size() - 1)]; }
  Value& place(Entry entry) {
    std::size_t i = entry.hash;
    while (at(i).used) ++i;
    at(i) = std::move(entry);
    return at(i).value;
  }
  void grow() {
    std::vector<Entry> old(std::max(first_size, table_.size() * 2));
    old.swap(table_);
    for (Entry& entry : old)
      if (entry.used) (void)place(std::move(entry));
  }
  static constexpr std::size_t first_size = 256;
  static std::size_t hash_of(std::string_view key) noexcept { return std::hash<std::string_view>{}(key); }

  std::vector<Entry> table_;
  std::size_t size_ = 0;
};

}  // namespace warmroute::metrics
