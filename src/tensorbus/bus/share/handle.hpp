#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tensorbus/values/id.hpp>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// The name of a share (share.hpp): a few bytes that any channel can carry to any process of the
// domain. It keeps no memory alive.
//
//   std::string line = handle.text();                        // "tensorbus:..."
//   Sample sample = tensorbus::bus::attach(Handle::parse(line));  // in another process
struct TENSORBUS_API Handle {
  // The layout of one tensor, for display. Attaching compares it with the share.
  struct Described {
    Layout layout;
    std::uint64_t offset = 0;  // of the first element, in its segment, in bytes
  };
  static constexpr std::size_t kMaxDescribed = 8;

  Id owner;                          // the participant that shares it
  std::uint64_t number = 0;          // the owner's number for the share
  std::uint64_t key = 0;             // random
  std::uint32_t tensors = 0;         // of the share
  std::vector<Described> described;  // the first of them

  // These throw only std::bad_alloc.
  std::vector<std::byte> bytes() const;
  std::string text() const;
  // These throw Error(kInvalidArgument) with the reason: cut short, changed, another version.
  static Handle from_bytes(std::span<const std::byte> bytes);
  static Handle parse(const std::string& text);

  // Returns the name of the same share at another participant that keeps it.
  Handle kept_by(const Id& keeper) const;

  bool operator==(const Handle& other) const noexcept {
    return owner == other.owner && number == other.number && key == other.key;
  }
};

}  // namespace tensorbus::bus
