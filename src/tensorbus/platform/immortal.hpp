#pragma once

#include <type_traits>

namespace tensorbus::platform {

// An object of the whole process, at namespace scope. It is made when the library is loaded and
// never destroyed: other static objects may use it while the process ends. A function-local static
// is no substitute: its initialization takes a lock, and a child forked meanwhile waits for it
// forever.
template <typename T>
class Immortal {
  static_assert(std::is_nothrow_default_constructible_v<T>, "its constructor must not throw");

 public:
  Immortal() noexcept : value_() {}
  ~Immortal() {}
  Immortal(const Immortal&) = delete;
  Immortal& operator=(const Immortal&) = delete;

  T& operator*() noexcept { return value_; }
  T* operator->() noexcept { return &value_; }

 private:
  union {  // so that the destructor is not called
    T value_;
  };
};

}  // namespace tensorbus::platform
