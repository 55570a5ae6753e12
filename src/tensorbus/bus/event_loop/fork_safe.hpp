#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::bus {

// Owns the object behind a public handle. In a forked child, using it throws Error(kForked), and
// destroying it does nothing: everything belongs to the parent.
template <typename T>
class ForkSafe {
 public:
  ForkSafe() = default;
  explicit ForkSafe(T&& value) : value_(std::make_unique<T>(std::move(value))) {}
  ForkSafe(ForkSafe&&) noexcept = default;
  ForkSafe& operator=(ForkSafe&&) noexcept = default;
  ~ForkSafe() {
    if (forked()) (void)value_.release();
  }

  explicit operator bool() const noexcept { return value_ != nullptr; }
  bool forked() const noexcept { return generation_ != platform::fork_generation(); }
  T* operator->() const { return &**this; }
  T& operator*() const {
    if (forked())
      throw Error(Code::kForked, "this object was made before fork(): the child makes its own");
    if (!value_) throw Error(Code::kClosed, "this object was moved from");
    return *value_;
  }

 private:
  std::unique_ptr<T> value_;
  std::uint32_t generation_ = platform::fork_generation();
};

}  // namespace tensorbus::bus
