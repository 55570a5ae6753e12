#pragma once

#include <cstddef>
#include <cstdint>

#include "tensorbus/bus/publish/outgoing_sample.hpp"

namespace tensorbus::bus {

// Several messages that are ready for links: tensors of one dtype and shape in one block of host
// memory, with the same distance between them. Each gets an entry and a lease of its own.
struct OutgoingRows {
  link::Entry next{};  // the entry of the first that is not published
  link::PublishedRef issued{};
  std::uint32_t left = 0;      // so many are not published
  std::size_t step = 0;        // bytes from one to the next
  std::size_t bytes_each = 0;  // of a tensor

  // Makes `entry` that of the message after it, or `by` messages further on.
  void advance(link::Entry& entry, std::uint64_t by = 1) const noexcept;
};

}  // namespace tensorbus::bus
