#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "tensorbus/platform/error.hpp"

// Structs of the C interface grow at their end: struct_size is the size of the struct that the
// caller was compiled with. Modelled on Linux's extensible system calls (clone3(2), openat2(2)).
namespace tensorbus::c {

// Copies the caller's struct into this library's version of it. Fields that an older caller does
// not have are zero, which means the behaviour before the field existed. Throws
// Error(kVersionMismatch) if a newer caller uses a field that this library does not have,
// Error(kInvalidArgument) for a struct that was not initialised.
template <typename Struct>
Struct taken(const Struct& given) {
  const std::size_t size = given.struct_size;
  if (size < sizeof given.struct_size)
    throw Error(Code::kInvalidArgument, "struct_size is " + std::to_string(size) +
                                            ": initialise the struct with its macro");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  if (size > sizeof(Struct) &&
      std::any_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte; }))
    throw Error(Code::kVersionMismatch,
                "this program uses an option of a newer libtensorbus: install that version");
  Struct known{};
  std::memcpy(&known, bytes, std::min(size, sizeof(Struct)));
  return known;
}
template <typename Struct>
Struct taken_or(const Struct* given, const Struct& otherwise) {
  return given == nullptr ? otherwise : taken(*given);
}

// Writes the fields that the caller's struct has. Fields that this library does not have stay
// unchanged.
template <typename Struct>
void give(Struct* target, Struct value) noexcept {
  if (target == nullptr) return;
  value.struct_size = target->struct_size;
  std::memcpy(target, &value, std::min<std::size_t>(target->struct_size, sizeof(Struct)));
}

}  // namespace tensorbus::c
