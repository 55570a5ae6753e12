#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Strings that are keys of messages again and again: their objects, with the hashes that they
// remember. Never freed. With the GIL, or in a build of Python without one.
class KeptKeys {
 public:
  static constexpr std::size_t kLongest = 32;

  // Where a key is kept, if it is. `made` is compact ASCII.
  class Slot {
   public:
    // Returns a borrowed reference; null if this key is not kept.
    PyObject* key_of(std::span<const std::byte> bytes) const noexcept {
      PyObject* const key = kept();
      if (key == nullptr) return nullptr;
      const auto size = static_cast<std::size_t>(PyUnicode_GET_LENGTH(key));
      const bool same =
          size == bytes.size() && std::memcmp(PyUnicode_1BYTE_DATA(key), bytes.data(), size) == 0;
      return same ? key : nullptr;
    }

#ifndef Py_GIL_DISABLED
    // The last one is kept.
    void keep(nb::object& made) noexcept {
      PyObject* const replaced = std::exchange(key_, Py_NewRef(made.ptr()));
      Py_XDECREF(replaced);
    }

   private:
    PyObject* kept() const noexcept { return key_; }

    PyObject* key_ = nullptr;
#else
    // A reader looks at a key before it holds it, so a key is never replaced. One is kept when it
    // comes twice in a row: keys that come once leave room. It is interned, and so immortal:
    // threads that read the same keys write to no common counter of references.
    void keep(nb::object& made) noexcept {
      const Py_hash_t hash = PyObject_Hash(made.ptr());
      // Relaxed: a hint. If one is lost, the key is kept when it comes the next time.
      if (kept() != nullptr || last_.exchange(hash, std::memory_order_relaxed) != hash) return;
      const nb::ft_lock_guard one_at_a_time(keeping);
      if (kept() != nullptr) return;
      PyObject* key = made.release().ptr();
      PyUnicode_InternInPlace(&key);
      made = nb::steal(key);
      // Release pairs with acquire in kept(): who sees the key sees a whole string.
      key_.store(Py_NewRef(key), std::memory_order_release);
    }

   private:
    PyObject* kept() const noexcept { return key_.load(std::memory_order_acquire); }

    std::atomic<PyObject*> key_{nullptr};
    std::atomic<Py_hash_t> last_{0};
#endif
  };

  static Slot& slot_of(std::span<const std::byte> bytes) noexcept {
    std::uint64_t hash = bytes.size();
    for (const std::byte byte : bytes) hash = hash * 31 + static_cast<std::uint64_t>(byte);
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4).
    return slots[(hash * 0x9e3779b97f4a7c15ULL) >> (64 - kBits)];
  }

 private:
  static constexpr int kBits = 9;
  static inline constinit Slot slots[1 << kBits]{};
  static inline nb::ft_mutex keeping;
};

}  // namespace tensorbus::python
