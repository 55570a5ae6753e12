#pragma once

#include <memory>

#include "tensorbus/link/lease/lease.hpp"

namespace tensorbus::bus {

struct SampleData;

// The parts of a subscriber's next sample, for a sample of one tensor and nothing else. They are
// allocated while nothing is there to receive, so that receive() does not wait for the allocator.
// Under the subscriber's mutex.
class SampleCache {
 public:
  SampleCache();
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // Allocates the next parts if the last were taken. If memory is short, it leaves that to the
  // functions below.
  void refill() noexcept {
    if (taken_) [[unlikely]]
      make();
  }

  // Returns parts with one tensor that is not filled in. These three throw std::bad_alloc.
  SampleData& parts();
  std::unique_ptr<SampleData> take_parts();
  // Returns a lease on nothing: Lease::begin() gives it its token.
  std::shared_ptr<link::Lease> take_lease();

 private:
  void make() noexcept;

  std::unique_ptr<SampleData> parts_;
  std::shared_ptr<link::Lease> lease_;
  bool taken_ = false;
};

}  // namespace tensorbus::bus
