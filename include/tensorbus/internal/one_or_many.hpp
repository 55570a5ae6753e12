#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

// A vector that stores a single element without an allocation: most samples have one tensor in one
// block.
template <typename T>
class OneOrMany {
 public:
  OneOrMany() = default;
  OneOrMany(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* begin() noexcept { return size_ > 1 ? many_.data() : &one_; }
  T* end() noexcept { return begin() + size_; }
  const T* begin() const noexcept { return size_ > 1 ? many_.data() : &one_; }
  const T* end() const noexcept { return begin() + size_; }
  std::span<const T> span() const noexcept { return {begin(), size_}; }
  T& operator[](std::size_t i) noexcept { return begin()[i]; }
  const T& operator[](std::size_t i) const noexcept { return begin()[i]; }
  const T& front() const noexcept { return *begin(); }
  const T& back() const noexcept { return end()[-1]; }

  // Only for an empty vector.
  void resize(std::size_t size) {
    if (size > 1) many_.resize(size);
    size_ = size;
  }
  void push_back(const T& value) { add(value); }
  void push_back(T&& value) { add(std::move(value)); }
  void pop_back() noexcept {
    if (size_ > 2) {
      many_.pop_back();
    } else if (size_ == 2) {
      one_ = std::move(many_.front());
      many_.clear();
    } else {
      one_ = T();
    }
    --size_;
  }
  void clear() noexcept {
    one_ = T();
    many_.clear();
    size_ = 0;
  }

 private:
  template <typename Value>
  void add(Value&& value) {
    if (size_ == 0) {
      one_ = std::forward<Value>(value);
    } else {
      // Reserves room for both first: if that throws, nothing has changed.
      if (size_ == 1) {
        many_.reserve(2);
        many_.push_back(std::move(one_));
      }
      many_.push_back(std::forward<Value>(value));
    }
    ++size_;
  }

  T one_{};
  std::vector<T> many_;
  std::size_t size_ = 0;
};

}  // namespace tensorbus::inline v0
