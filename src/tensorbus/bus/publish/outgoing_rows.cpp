#include "tensorbus/bus/publish/outgoing_rows.hpp"

#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

void OutgoingRows::advance(link::Entry& entry, std::uint64_t by) const noexcept {
  entry.sequence += by;
  tensor::move_alone(entry.inline_bytes, by * step);
}

}  // namespace tensorbus::bus
