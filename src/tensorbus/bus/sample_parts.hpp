#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/bus/claimed.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/sample.hpp"
#include "tensorbus/bus/staging.hpp"
#include "tensorbus/link/lease.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tensorbus/tensor/few.hpp"

namespace tensorbus::bus {

// What a Sample holds.
struct SampleParts {
  SampleHeader header;
  Few<Tensor> tensors;
  std::span<const std::byte> fields;
  // A private copy of the descriptor, which `fields` points into.
  std::array<std::byte, link::kInlineBytes> inline_bytes;
  std::vector<std::byte> block_bytes;
  // Where the topic's name is, unless the lease of a tensor keeps it.
  std::shared_ptr<const link::Source> source;

  // Reads an entry whose lease the caller hands over. kSegmentMissing: one has not arrived yet.
  // kNotClaimed: some of it belongs to others than the lender, and `claimed` is null. kHalfWritten:
  // its owner died before the GPU had written it. kOutOfReach: some of it lies on a device that
  // this process cannot use, and `claimed` has no copy of that. With each of these the lease is
  // still the caller's. It is, too, when Error(kOutOfMemory) or std::bad_alloc is thrown: there is
  // no room for the sample's books, or for mappings of its own. Any other Error is for a descriptor
  // that makes no sense; then the lease has gone back.
  enum class Read { kDone, kSegmentMissing, kNotClaimed, kHalfWritten, kOutOfReach };
  [[nodiscard]] static Read read(Sample& sample, std::shared_ptr<link::Lender> lender,
                                 const link::Entry& entry, Access access,
                                 const Claimed* claimed = nullptr);
  // Of an entry of which read() said kNotClaimed: owners and tensors, without the fields.
  static Descriptor handed_on(link::Lender& lender, const link::Entry& entry);
  // Of one of which it said kOutOfReach.
  static std::vector<OutOfReach> out_of_reach(link::Lender& lender, const link::Entry& entry,
                                              const Claimed* claimed);
  static Sample copy_of(const SampleParts& original);
  // Null of a sample that nobody has lent.
  static std::shared_ptr<link::Lease> lease_of(const Sample& sample);

 private:
  // Nothing but `lease` and the mappings is touched before it is certain that there is a sample.
  static Read read_leased(Sample& sample, link::Lender& lender, const link::Entry& entry,
                          Access access, const Claimed* claimed,
                          const memory::BorrowedSegments::Ref& segment,
                          std::shared_ptr<link::Lease>& lease);
  void move_to_own_pages(link::Lender& lender, const Claimed* claimed, const Descriptor& descriptor,
                         link::Lease& lease);
  void copy_block(std::span<const std::byte> descriptor);
  std::span<const std::byte> copy(std::span<const std::byte> descriptor, const link::Entry& entry);
};

}  // namespace tensorbus::bus
