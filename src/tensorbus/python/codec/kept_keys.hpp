#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/stable_abi.hpp"

namespace tensorbus::python {

// A cache of str objects that are frequent keys of messages. A str also stores its hash, so that
// the hash is not computed again. The cache is never freed. Used with the GIL, or in a build of
// Python without a GIL.

// Longer keys are not kept.
inline constexpr std::size_t kLongestKept = 32;

// A slot of the cache. It keeps only ASCII strings.
class KeptKey {
 public:
  // Returns the key of these bytes, borrowed; null if it is not kept.
  PyObject* key_of(std::span<const std::byte> bytes) const noexcept {
    PyObject* const key = kept();
    if (key == nullptr) return nullptr;
    const std::string_view text = ascii_value(key);
    const bool same =
        text.size() == bytes.size() && std::memcmp(text.data(), bytes.data(), text.size()) == 0;
    return same ? key : nullptr;
  }
  // May keep the key. Without a GIL, `made` may be replaced by another object with the same text.
  void keep(nb::object& made) noexcept;

 private:
#ifndef Py_GIL_DISABLED
  PyObject* kept() const noexcept { return key_; }

  PyObject* key_ = nullptr;
#else
  PyObject* kept() const noexcept { return key_.load(std::memory_order_acquire); }

  static inline nb::ft_mutex keeping;  // held while a key is kept, for all slots

  std::atomic<PyObject*> key_{nullptr};
  std::atomic<Py_hash_t> last_{0};  // hash of the last key that was not kept
#endif
};

inline constinit KeptKey kept_keys[512];

// Returns the slot of a key.
inline KeptKey& place_of_key(std::span<const std::byte> bytes) noexcept {
  constexpr int kBits = 9;
  static_assert(std::size(kept_keys) == 1 << kBits);
  std::uint64_t hash = bytes.size();
  for (const std::byte byte : bytes) hash = hash * 31 + static_cast<std::uint64_t>(byte);
  // Fibonacci hashing (Knuth, TAOCP 3, 6.4).
  return kept_keys[(hash * 0x9e3779b97f4a7c15ULL) >> (64 - kBits)];
}

#ifndef Py_GIL_DISABLED
// The newest key replaces the kept key.
inline void KeptKey::keep(nb::object& made) noexcept {
  PyObject* const replaced = std::exchange(key_, Py_NewRef(made.ptr()));
  Py_XDECREF(replaced);
}
#else
// A kept key is never replaced, because a reader compares the key before it holds a reference. A
// key is kept when it occurs twice in a row, so that unique keys take no slots. A kept key is
// interned and thereby immortal, so threads that read the same keys do not write to a shared
// reference count.
inline void KeptKey::keep(nb::object& made) noexcept {
  const Py_hash_t hash = PyObject_Hash(made.ptr());
  // Relaxed: a hint. If it is lost, the key is kept later.
  if (kept() != nullptr || last_.exchange(hash, std::memory_order_relaxed) != hash) return;
  const nb::ft_lock_guard one_at_a_time(keeping);
  if (kept() != nullptr) return;
  PyObject* key = made.release().ptr();
  PyUnicode_InternInPlace(&key);
  made = checked(key);
  // Release pairs with acquire in kept(): a reader sees the complete key.
  key_.store(Py_NewRef(key), std::memory_order_release);
}
#endif

}  // namespace tensorbus::python
