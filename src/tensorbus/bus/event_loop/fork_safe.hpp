#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::bus {

// Contains an object that a program holds, or the object's state. In a forked child, using it
// throws Error(kForked), and destroying it leaves the object to the parent. After a move, using it
// throws Error(kClosed) with the text T::kMovedFrom.
template <typename T>
class ForkSafe {
 public:
  ForkSafe() = default;
  template <typename... Args>
  explicit ForkSafe(std::in_place_t /*unused*/, Args&&... args) {
    emplace(std::forward<Args>(args)...);
  }
  ForkSafe(ForkSafe&&) noexcept = default;
  ForkSafe& operator=(ForkSafe&& other) noexcept {
    leave_to_parent();
    value_ = std::move(other.value_);
    generation_ = other.generation_;
    return *this;
  }
  ~ForkSafe() { leave_to_parent(); }

  // Called only while this contains no object.
  template <typename... Args>
  void emplace(Args&&... args) {
    value_.reset(new T{std::forward<Args>(args)...});
  }
  void reset() noexcept {
    leave_to_parent();
    value_.reset();
  }
  explicit operator bool() const noexcept { return value_ != nullptr; }
  T* operator->() const { return &**this; }
  T& operator*() const {
    if (forked())
      throw Error(Code::kForked, "this object was made before fork(): make a new one in the child");
    if (!value_) throw Error(Code::kClosed, T::kMovedFrom);
    return *value_;
  }

 private:
  bool forked() const noexcept { return generation_ != platform::fork_generation(); }
  void leave_to_parent() noexcept {
    if (forked()) (void)value_.release();
  }

  std::unique_ptr<T> value_;
  std::uint32_t generation_ = platform::fork_generation();
};

}  // namespace tensorbus::bus
