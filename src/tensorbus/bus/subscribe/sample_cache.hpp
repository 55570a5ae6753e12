#pragma once

#include <memory>

#include "tensorbus/link/lease/lease.hpp"

namespace tensorbus::bus {

struct SampleData;

// Preallocated parts of a subscriber's next sample, for a sample of exactly one tensor. Allocated
// while there is no sample to receive, so that receive() does not wait for the allocator. Guarded
// by the subscriber's mutex.
class SampleCache {
 public:
  SampleCache();
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // Allocates the next parts if the last ones were taken. If memory is short now, the functions
  // below allocate them.
  void refill() noexcept {
    if (taken_) [[unlikely]]
      make();
  }

  // Returns parts with one tensor that is not filled in. These three throw std::bad_alloc.
  SampleData& parts();
  std::unique_ptr<SampleData> take_parts();
  // Returns an empty lease: Lease::begin() gives it its token.
  std::shared_ptr<link::Lease> take_lease();

 private:
  void make() noexcept;

  std::unique_ptr<SampleData> parts_;
  std::shared_ptr<link::Lease> lease_;
  bool taken_ = false;
};

}  // namespace tensorbus::bus
