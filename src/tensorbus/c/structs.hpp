#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "tensorbus/platform/error.hpp"

// Structs of the C interface, which grow at their end: struct_size says how much of one the caller
// knows. After Linux's extensible system calls (clone3(2), openat2(2)).
namespace tensorbus::c {

// What the caller gave, as this library knows it: what an older caller does not know is zero, which
// is what it was before there was such a field. Throws Error(kVersionMismatch) if a newer one uses
// a field that is not known here, Error(kInvalidArgument) for a struct that was not initialised.
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
                "this program uses an option of a newer libtensorbus than the one that is loaded");
  Struct known{};
  std::memcpy(&known, bytes, std::min(size, sizeof(Struct)));
  return known;
}
template <typename Struct>
Struct taken_or(const Struct* given, const Struct& otherwise) {
  return given == nullptr ? otherwise : taken(*given);
}

// As much of it as the caller knows; what is not known here is left as it is.
template <typename Struct>
void give(Struct* target, Struct value) noexcept {
  if (target == nullptr) return;
  value.struct_size = target->struct_size;
  std::memcpy(target, &value, std::min<std::size_t>(target->struct_size, sizeof(Struct)));
}

}  // namespace tensorbus::c
