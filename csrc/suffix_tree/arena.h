// A growing array of plain values, addressed by a 32-bit index and freed at once.
//
// `realloc` grows it: for big blocks the C library moves pages instead of copying bytes, so a small
// growth factor costs little and leaves little unused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace seer {

template <typename T>
  requires std::is_trivially_copyable_v<T>
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Arena() { std::free(data_); }

  uint32_t size() const { return static_cast<uint32_t>(size_); }
  size_t bytes() const { return capacity_ * sizeof(T); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](uint32_t index) { return data_[index]; }
  const T& operator[](uint32_t index) const { return data_[index]; }

  // Index of the first of `count` new elements, not initialised. Moves the array: references into
  // it end here.
  uint32_t allocate(uint32_t count) {
    if (capacity_ - size_ < count) grow(size_ + count);
    const auto first = static_cast<uint32_t>(size_);
    size_ += count;
    return first;
  }

  uint32_t push(const T& value) {
    const T copy = value;  // `value` may lie in this arena
    const uint32_t index = allocate(1);
    data_[index] = copy;
    return index;
  }

 private:
  void grow(size_t needed) {
    if (needed > std::numeric_limits<uint32_t>::max()) {
      throw std::length_error("a suffix tree holds at most 2^32 entries of a kind");
    }
    const size_t capacity = std::max({needed, capacity_ + capacity_ / 4, size_t{16}});
    T* data = static_cast<T*>(std::realloc(static_cast<void*>(data_), capacity * sizeof(T)));
    if (data == nullptr) throw std::bad_alloc();
    data_ = data;
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace seer
