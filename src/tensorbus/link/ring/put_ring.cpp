#include "tensorbus/link/ring/put_ring.hpp"

#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::link {
namespace {

platform::Fd verified_put_ring(platform::Fd memfd) {
  platform::verify_sealed_memfd(memfd.get(), PutRingSegment::kBytes, "QUEUE_RING.ring");
  return memfd;
}

}  // namespace

PutRingSegment::PutRingSegment()
    : memfd_(platform::create_sealed_memfd("tensorbus-put", kBytes)),
      mapping_(memfd_.get(), kBytes, platform::Mapping::Access::kReadWrite) {
  if (!platform::reserve_pages(memfd_.get(), 0, kBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for the ring of a queue");
}

PutRingSegment::PutRingSegment(platform::Fd memfd)
    : memfd_(verified_put_ring(std::move(memfd))),
      mapping_(memfd_.get(), kBytes, platform::Mapping::Access::kReadWrite) {
  memfd_.reset();
}

}  // namespace tensorbus::link
