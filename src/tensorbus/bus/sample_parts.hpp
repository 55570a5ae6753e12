#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/sample.hpp"
#include "tensorbus/link/borrower_link.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tensorbus/tensor/few.hpp"

namespace tensorbus::bus {

// A borrower's right to read the memory of one sample. Dropping the last reference returns it.
class Lease {
 public:
  Lease(std::shared_ptr<link::BorrowerLink> link, std::uint64_t token)
      : link_(std::move(link)), token_(token) {}
  ~Lease() {
    if (link_ && link_->forked()) {
      platform::abandon(std::move(link_));
      platform::abandon(std::move(segments_));
    } else if (link_) {
      link_->release(token_);
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // The token stays with the link.
  void forget() noexcept { link_.reset(); }
  // The mappings that the sample lies in stay for as long as the lease.
  void keep(const memory::BorrowedSegments::Ref& segment) {
    if (segments_.empty() || segments_.back() != segment) segments_.push_back(segment);
  }

 private:
  std::shared_ptr<link::BorrowerLink> link_;
  std::uint64_t token_;
  Few<memory::BorrowedSegments::Ref> segments_;
};

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

  // Reads an entry whose lease the caller hands over. Empty: a segment has not arrived yet, and
  // the lease is still the caller's. It is, too, when Error(kOutOfMemory) or std::bad_alloc is
  // thrown: there is no room for the sample's books, or for mappings of its own. Any other Error is
  // for a descriptor that makes no sense; then the lease has gone back.
  static std::optional<Sample> read(const std::shared_ptr<link::BorrowerLink>& link,
                                    const link::Entry& entry, Access access);
  static Sample copy_of(const SampleParts& original);

 private:
  static std::optional<Sample> read_leased(const std::shared_ptr<link::BorrowerLink>& link,
                                           const link::Entry& entry, Access access,
                                           const memory::BorrowedSegments::Ref& segment,
                                           std::shared_ptr<Lease>& lease);
  void move_to_own_pages(const link::BorrowerLink& link, const Descriptor& descriptor,
                         Lease& lease);
  void copy_block(std::span<const std::byte> descriptor);
  std::span<const std::byte> copy(std::span<const std::byte> descriptor, const link::Entry& entry);
};

}  // namespace tensorbus::bus
