#pragma once

// MessagePack for Value, as specified at https://github.com/msgpack/msgpack.
#include <cstdint>
#include <cstring>
#include <tensorbus/values/error.hpp>

namespace tensorbus::inline v0 {
namespace internal {

inline constexpr int kMaxDepth = 64;
// Limit for the number of items for which memory is reserved in advance: a message can announce
// many items in few bytes, at each level of nesting.
inline constexpr std::uint64_t kMaxReserved = 1024;
inline constexpr std::int8_t kTensorType = 1;
inline constexpr std::int8_t kTupleType = 2;
inline constexpr std::int8_t kRecordType = 3;       // a list of a name and parts (docs/tensors.md)
inline constexpr const char* kMessage = "message";  // the record of a typed message

// As std::bit_cast, which GCC 10 lacks.
template <typename To, typename From>
To bits_as(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof from);
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Counts a level of nesting while the level is read or written.
class Nesting {
 public:
  Nesting(int& depth, Code code) : depth_(depth) {
    if (depth_ == kMaxDepth) throw Error(code, "sample.fields: nested deeper than 64 levels");
    ++depth_;
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --depth_; }

 private:
  int& depth_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
