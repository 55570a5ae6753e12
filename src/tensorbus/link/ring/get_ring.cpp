#include "tensorbus/link/ring/get_ring.hpp"

#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::link {
namespace {

platform::Fd verified_get_ring(platform::Fd memfd) {
  platform::verify_sealed_memfd(memfd.get(), GetRingSegment::kBytes, "GET_RING.ring");
  return memfd;
}

}  // namespace

GetRingSegment::GetRingSegment()
    : memfd_(platform::create_sealed_memfd("tensorbus-get", kBytes)),
      mapping_(memfd_.get(), kBytes, platform::Mapping::Access::kReadWrite) {
  if (!platform::reserve_pages(memfd_.get(), 0, kBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for the ring of a queue");
  header().wake_at.store(GetRingHeader::kNever, std::memory_order_relaxed);
}

GetRingSegment::GetRingSegment(platform::Fd memfd)
    : memfd_(verified_get_ring(std::move(memfd))),
      mapping_(memfd_.get(), kBytes, platform::Mapping::Access::kReadWrite) {
  memfd_.reset();
}

platform::Fd GetRingSegment::descriptor() const { return platform::duplicate(memfd_.get()); }

}  // namespace tensorbus::link
