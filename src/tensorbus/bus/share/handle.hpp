#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tensorbus/id.hpp>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus {

// The name of what somebody shares (share.hpp): a few bytes that any means can carry to any process
// of the domain. It keeps nothing alive.
//
//   std::string line = handle.text();                        // "tensorbus:..."
//   Sample sample = tensorbus::attach(Handle::parse(line));  // in another process
struct TENSORBUS_API Handle {
  // What one of the tensors looks like. For people, and compared with what is found.
  struct Described {
    Layout layout;
    std::uint64_t offset = 0;  // of the first element, in its segment, in bytes
  };
  static constexpr std::size_t kMostDescribed = 8;

  Id owner;                          // the participant that shares it
  std::uint64_t number = 0;          // what it calls it
  std::uint64_t key = 0;             // random
  std::uint32_t tensors = 0;         // that there are
  std::vector<Described> described;  // the first of them

  // Both throw nothing but std::bad_alloc.
  std::vector<std::byte> bytes() const;
  std::string text() const;
  // Throw Error(kInvalidArgument) that says what is wrong: cut short, changed, of another version.
  static Handle from_bytes(std::span<const std::byte> bytes);
  static Handle parse(const std::string& text);

  bool operator==(const Handle& other) const noexcept {
    return owner == other.owner && number == other.number && key == other.key;
  }
};

}  // namespace tensorbus
