#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "tests/model/weak_memory/explorer.hpp"

namespace tensorbus::platform {

// Has the functions of std::atomic that the code under test uses. Its value is the initial value:
// all later values are in the history that the Explorer keeps.
template <typename T>
class Atomic {
 public:
  using Where = std::source_location;
  static constexpr bool is_always_lock_free = true;

  constexpr Atomic() noexcept : value_() {}
  constexpr Atomic(T value) noexcept : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order, Where where = Where::current()) const noexcept {
    return from_word(perform({.kind = model::Kind::kLoad, .order = order}, where));
  }
  void store(T value, std::memory_order order, Where where = Where::current()) noexcept {
    perform({.kind = model::Kind::kStore, .order = order, .value = to_word(value)}, where);
  }
  T exchange(T value, std::memory_order order, Where where = Where::current()) noexcept {
    return from_word(
        perform({.kind = model::Kind::kExchange, .order = order, .value = to_word(value)}, where));
  }
  T fetch_add(T value, std::memory_order order, Where where = Where::current()) noexcept {
    return from_word(
        perform({.kind = model::Kind::kAdd, .order = order, .value = to_word(value)}, where));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure, Where where = Where::current()) noexcept {
    const T seen = from_word(perform({.kind = model::Kind::kCompare,
                                      .order = success,
                                      .failure = failure,
                                      .value = to_word(desired),
                                      .expected = to_word(expected)},
                                     where));
    if (seen == expected) return true;
    expected = seen;
    return false;
  }
  // The kernel's part of futex().
  void sleep_while(T value, Where where = Where::current()) noexcept {
    perform({.kind = model::Kind::kWait, .value = to_word(value)}, where);
  }
  void wake_all(Where where = Where::current()) noexcept {
    perform({.kind = model::Kind::kWake}, where);
  }

 private:
  static std::uint64_t to_word(T value) noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
  }
  static T from_word(std::uint64_t word) noexcept {
    T value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  std::uint64_t perform(model::Operation operation, Where where) const noexcept {
    model::Explorer* const explorer = model::Explorer::current();
    if (explorer == nullptr) return to_word(value_);  // it is being made, or destroyed
    operation.at = this;
    operation.initial = to_word(value_);
    return explorer->perform(operation, where);
  }

  T value_;
};

inline void atomic_fence(std::memory_order order,
                         std::source_location where = std::source_location::current()) noexcept {
  if (model::Explorer* const explorer = model::Explorer::current())
    explorer->perform({.kind = model::Kind::kFence, .order = order}, where);
}

}  // namespace tensorbus::platform

namespace tensorbus::model {

// An object that is not atomic. Two accesses without an order between them, of which at least one
// writes, are undefined behaviour: they end the exploration.
class Plain {
 public:
  void write(std::uint64_t value) const { Explorer::current()->write_plain(this, value); }
  std::uint64_t read() const { return Explorer::current()->read_plain(this); }

 private:
  [[maybe_unused]] char address_ = 0;
};

inline void require(bool holds, const char* what) {
  if (!holds) Explorer::current()->fail(what);
}

}  // namespace tensorbus::model
