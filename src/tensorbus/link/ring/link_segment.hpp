#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tensorbus/link/ring/return_ring.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"

namespace tensorbus::link {

// The numbers of slots of a link's two rings: powers of two.
struct Geometry {
  std::uint32_t slots = 0;
  std::uint32_t returns = 0;

  static Geometry for_link(std::uint32_t depth, std::uint32_t max_held) noexcept;
  std::size_t bytes() const noexcept;
  bool operator==(const Geometry&) const = default;
};
inline constexpr std::uint32_t kMaxDepth = 1 << 16;
inline constexpr std::uint32_t kMaxHeld = 1 << 20;

// Owns the memory of one link: a header page, the sample ring, the return ring. Both ends map it
// writable, and take the geometry from ACCEPTED, never from this memory.
class LinkSegment {
 public:
  // The owner's end: makes the memory.
  explicit LinkSegment(Geometry geometry);
  // The borrower's end: maps the memory that it received. Throws Error(kProtocol).
  LinkSegment(platform::Fd memfd, Geometry geometry);

  const platform::Fd& memfd() const noexcept { return memfd_; }
  const Geometry& geometry() const noexcept { return geometry_; }
  std::span<Slot> slots() const noexcept;
  ReturnWord* return_tail() const noexcept;
  std::span<ReturnSlot> returns() const noexcept;
  // 1 + the number of the publisher's samples if it has closed in an orderly way, else 0. Written
  // only by the owner.
  std::atomic<std::uint64_t>* publisher_closed() const noexcept;
  // 1 + the first sequence number of a mirror that began after the link was made, else 0. Written
  // only by the owner.
  std::atomic<std::uint64_t>* first_sequence() const noexcept;

  // Closes the descriptor, which is needed only until it is sent.
  void close_descriptor() noexcept { memfd_.reset(); }

 private:
  Geometry geometry_;
  platform::Fd memfd_;
  platform::Mapping mapping_;
};

}  // namespace tensorbus::link
