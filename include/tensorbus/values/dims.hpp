#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace tensorbus::inline v0 {

// The largest number of dimensions of a tensor.
inline constexpr std::size_t kMaxDims = 64;

// The sizes or the strides of a tensor, outermost first. The object itself stores up to six values.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) : Dims(values.size()) {
    std::copy(values.begin(), values.end(), begin());
  }
  explicit Dims(std::size_t count) : count_(count) {
    if (count > kInline) spill_ = std::make_unique<std::int64_t[]>(count);
  }
  Dims(const Dims& other) : count_(other.count_), few_(other.few_) {
    if (other.spill_) [[unlikely]]
      copy_spilled(other);
  }
  Dims(Dims&& other) noexcept
      : count_(std::exchange(other.count_, 0)), few_(other.few_), spill_(std::move(other.spill_)) {}
  Dims& operator=(const Dims& other) { return *this = Dims(other); }
  Dims& operator=(Dims&& other) noexcept {
    count_ = std::exchange(other.count_, 0);
    few_ = other.few_;
    spill_ = std::move(other.spill_);
    return *this;
  }

  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  std::int64_t* begin() noexcept { return spill_ ? spill_.get() : few_.data(); }
  std::int64_t* end() noexcept { return begin() + count_; }
  const std::int64_t* begin() const noexcept { return spill_ ? spill_.get() : few_.data(); }
  const std::int64_t* end() const noexcept { return begin() + count_; }
  std::int64_t& operator[](std::size_t i) noexcept { return begin()[i]; }
  std::int64_t operator[](std::size_t i) const noexcept { return begin()[i]; }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr std::size_t kInline = 6;

  // A separate function, so that a copy of few dimensions is inlined.
  [[gnu::noinline]] void copy_spilled(const Dims& other) {
    spill_ = std::make_unique<std::int64_t[]>(count_);
    std::copy(other.begin(), other.end(), begin());
  }

  std::size_t count_ = 0;
  std::array<std::int64_t, kInline> few_{};
  std::unique_ptr<std::int64_t[]> spill_;
};

}  // namespace tensorbus::inline v0
