#pragma once
// A growable byte buffer that is never filled with zeros and always has `padding` readable bytes behind its end, as
// simdjson wants it.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace warmroute::base {

class Bytes {
 public:
  static constexpr std::size_t padding = 64;

  Bytes() = default;
  Bytes(Bytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Bytes& operator=(Bytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { std::free(data_); }

  [[nodiscard]] std::string_view view() const noexcept { return {data_, size_}; }
  [[nodiscard]] char* data() noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    auto* grown = static_cast<char*>(std::realloc(data_, capacity + padding));
    if (grown == nullptr) throw std::bad_alloc();
    data_ = grown;
    capacity_ = capacity;
  }
  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    if (size_ + bytes.size() > capacity_) reserve(grown_capacity(size_ + bytes.size()));
    std::memcpy(data_ + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  /// Room behind the end to read into; commit() says how much was used.
  [[nodiscard]] char* room() noexcept { return data_ + size_; }
  void commit(std::size_t bytes) noexcept { size_ += bytes; }
  void truncate(std::size_t size) noexcept { size_ = size; }
  void erase_front(std::size_t count) noexcept {
    size_ -= count;
    if (size_ != 0) std::memmove(data_, data_ + count, size_);
  }
  /// Gives the memory back.
  void release() noexcept {
    std::free(std::exchange(data_, nullptr));
    size_ = capacity_ = 0;
  }

 private:
  [[nodiscard]] std::size_t grown_capacity(std::size_t wanted) const noexcept {
    return capacity_ == 0 ? wanted : (wanted > 2 * capacity_ ? wanted : 2 * capacity_);
  }

  char* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace warmroute::base
