#pragma once
// A small map from label values to series for one thread: open addressing, bounded; when it is full it starts anew.

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
  static constexpr std::size_t slots = 512;
  static constexpr std::size_t limit = 384;

  [[nodiscard]] Value* find(std::string_view key) noexcept {
    if (table_.empty()) return nullptr;
    const std::size_t hash = hash_of(key);
    for (std::size_t i = hash % slots;; i = (i + 1) % slots) {
      Entry& entry = table_[i];
      if (!entry.used) return nullptr;
      if (entry.hash == hash && entry.key == key) return &entry.value;
    }
  }
  /// The key must not be there. Values found before may be gone afterwards.
  Value& insert(std::string_view key, Value value) {
    if (size_ >= limit) clear();
    table_.resize(slots);
    const std::size_t hash = hash_of(key);
    std::size_t i = hash % slots;
    while (table_[i].used) i = (i + 1) % slots;
    table_[i] = Entry{true, hash, std::string(key), std::move(value)};
    ++size_;
    return table_[i].value;
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
  static std::size_t hash_of(std::string_view key) noexcept { return std::hash<std::string_view>{}(key); }

  std::vector<Entry> table_;
  std::size_t size_ = 0;
};

}  // namespace warmroute::metrics
