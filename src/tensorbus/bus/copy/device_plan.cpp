#include "tensorbus/bus/copy/device_plan.hpp"

#include <algorithm>
#include <string>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {
namespace {

using memory::kBlockAlignment;

std::uintptr_t address_of(const std::byte* byte) { return reinterpret_cast<std::uintptr_t>(byte); }

}  // namespace

void DevicePlan::add(const std::byte* begin, std::size_t bytes, std::size_t packed_bytes) {
  stretches_.push_back({begin, begin + bytes, packed_bytes});
}

std::size_t DevicePlan::lay_out() {
  std::sort(stretches_.begin(), stretches_.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  std::vector<Stretch> apart;
  for (const Stretch& next : stretches_)
    if (!apart.empty() && next.begin < apart.back().end) {
      apart.back().end = std::max(apart.back().end, next.end);
      apart.back().packed_bytes += next.packed_bytes;
    } else {
      apart.push_back(next);
    }
  stretches_ = std::move(apart);
  std::size_t end = 0;
  for (Stretch& stretch : stretches_) {
    // Keeps the distance from an alignment boundary, so that elements keep their alignment.
    stretch.place = (end + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment +
                    address_of(stretch.begin) % kBlockAlignment;
    end = stretch.place + static_cast<std::size_t>(stretch.end - stretch.begin);
  }
  return end;
}

void DevicePlan::require_dense() const {
  for (const Stretch& one : stretches_) {
    const auto bytes = static_cast<std::size_t>(one.end - one.begin);
    if (!tensor::holes_are_cheap(bytes, one.packed_bytes))
      throw Error(Code::kUnsupported,
                  "a tensor on a GPU whose " + std::to_string(one.packed_bytes) +
                      " bytes are spread over " + std::to_string(bytes) +
                      ", in memory that cannot be shared: publish a contiguous one");
  }
}

std::size_t DevicePlan::place_of(const std::byte* byte) const {
  const auto found = std::find_if(stretches_.begin(), stretches_.end(), [&](const Stretch& one) {
    return byte >= one.begin && byte < one.end;
  });
  check(found != stretches_.end());
  return found->place + static_cast<std::size_t>(byte - found->begin);
}

std::size_t DevicePlan::bytes() const {
  std::size_t bytes = 0;
  for (const Stretch& one : stretches_) bytes += static_cast<std::size_t>(one.end - one.begin);
  return bytes;
}

void DevicePlan::copy_on(const device::GpuStream& stream, std::byte* block) const {
  const device::GpuScope scope(stream.device());
  for (const Stretch& one : stretches_)
    stream.copy(block + one.place, one.begin, static_cast<std::size_t>(one.end - one.begin));
}

}  // namespace tensorbus::bus
