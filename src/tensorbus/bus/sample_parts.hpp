#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/bus/sample.hpp"
#include "tensorbus/link/borrower_link.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/tensor/descriptor.hpp"

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
  void keep(memory::BorrowedSegments::Ref segment) { segments_.push_back(std::move(segment)); }

 private:
  std::shared_ptr<link::BorrowerLink> link_;
  std::uint64_t token_;
  std::vector<memory::BorrowedSegments::Ref> segments_;
};

// What a Sample holds.
struct SampleParts {
  SampleHeader header;
  std::vector<Tensor> tensors;
  std::vector<std::byte> descriptor;  // a private copy; `fields` points into it
  std::span<const std::byte> fields;
  std::shared_ptr<const link::Source> source;

  // Reads an entry whose lease the caller hands over. Empty: a segment has not arrived yet, and
  // the lease is still the caller's. Throws Error(kProtocol) for a descriptor that makes no sense; then
  // the lease has gone back.
  static std::optional<Sample> read(const std::shared_ptr<link::BorrowerLink>& link,
                                    const link::Entry& entry);
};

}  // namespace tensorbus::bus
