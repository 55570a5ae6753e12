#include "tensorbus/link/ring/link_segment.hpp"

#include <bit>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::link {
namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kClosedOffset = 16;
constexpr std::size_t kFirstOffset = 24;
constexpr std::size_t kReturnTailOffset = 128;        // a cache line that only the borrower writes
constexpr std::uint64_t kMagic = 0x316b6e696c737562;  // "buslink1"

// For debuggers and core files; Tensorbus does not read it.
struct Header {
  std::uint64_t magic = kMagic;
  std::uint32_t slots = 0;
  std::uint32_t returns = 0;
};
static_assert(sizeof(Header) <= kClosedOffset);

platform::Fd verified(platform::Fd memfd, const Geometry& geometry) {
  if (!std::has_single_bit(geometry.slots) || geometry.slots > kMaxDepth ||
      !std::has_single_bit(geometry.returns) || geometry.returns > 2 * kMaxHeld)
    throw Error(Code::kProtocol, "ACCEPTED.slots: a ring of " + std::to_string(geometry.slots) +
                                     " and " + std::to_string(geometry.returns) + " slots");
  platform::verify_sealed_memfd(memfd.get(), geometry.bytes(), "ACCEPTED.link_segment");
  return memfd;
}

}  // namespace

Geometry Geometry::for_link(std::uint32_t depth, std::uint32_t max_held) noexcept {
  return {std::bit_ceil(depth), std::bit_ceil(depth + max_held)};
}

std::size_t Geometry::bytes() const noexcept {
  const std::size_t used = kHeaderBytes + slots * sizeof(Slot) + returns * sizeof(ReturnSlot);
  return (used + kHeaderBytes - 1) / kHeaderBytes * kHeaderBytes;
}

LinkSegment::LinkSegment(Geometry geometry)
    : geometry_(geometry),
      memfd_(platform::create_sealed_memfd("tensorbus-link", geometry.bytes())),
      mapping_(memfd_.get(), geometry.bytes(), platform::Mapping::Access::kReadWrite) {
  if (!platform::reserve_pages(memfd_.get(), 0, geometry.bytes()))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for the rings of a link");
  *reinterpret_cast<Header*>(mapping_.data()) = {kMagic, geometry.slots, geometry.returns};
}

LinkSegment::LinkSegment(platform::Fd memfd, Geometry geometry)
    : geometry_(geometry),
      memfd_(verified(std::move(memfd), geometry)),
      mapping_(memfd_.get(), geometry.bytes(), platform::Mapping::Access::kReadWrite) {}

std::span<Slot> LinkSegment::slots() const noexcept {
  return {reinterpret_cast<Slot*>(mapping_.data() + kHeaderBytes), geometry_.slots};
}

ReturnWord* LinkSegment::return_tail() const noexcept {
  return reinterpret_cast<ReturnWord*>(mapping_.data() + kReturnTailOffset);
}

std::atomic<std::uint64_t>* LinkSegment::publisher_closed() const noexcept {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + kClosedOffset);
}

std::atomic<std::uint64_t>* LinkSegment::first_sequence() const noexcept {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + kFirstOffset);
}

std::span<ReturnSlot> LinkSegment::returns() const noexcept {
  return {reinterpret_cast<ReturnSlot*>(mapping_.data() + kHeaderBytes +
                                        geometry_.slots * sizeof(Slot)),
          geometry_.returns};
}

}  // namespace tensorbus::link
