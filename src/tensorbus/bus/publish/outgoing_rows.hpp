#pragma once

#include <cstddef>
#include <cstdint>

#include "tensorbus/bus/publish/outgoing_sample.hpp"

namespace tensorbus::bus {

// Several messages that are ready for links: tensors of one dtype and shape in one block of host
// memory, at equal distances. Each message gets its own entry and lease.
struct OutgoingRows {
  link::Entry next{};  // the entry of the first unpublished message
  link::PublishedRef issued{};
  std::uint32_t left = 0;      // number of unpublished messages
  std::size_t step = 0;        // bytes from one message to the next
  std::size_t bytes_each = 0;  // of one tensor

  // Changes `entry` into that of the next message, or of the message `by` places further on.
  void advance(link::Entry& entry, std::uint64_t by = 1) const noexcept;
};

}  // namespace tensorbus::bus
