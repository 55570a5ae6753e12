#pragma once

#include <memory>

#include "tensorbus/link/lease/lease.hpp"

namespace tensorbus::bus {

struct SampleData;

// What a subscriber's next sample is made of, if that is one tensor and nothing beside it: made
// while there is nothing to receive, so that the sample does not wait for the allocator. Under the
// subscriber's mutex.
class SampleCache {
 public:
  SampleCache();
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  // Makes the next ones, if the last ones were taken. Nothing without memory: they are made when
  // they are wanted then.
  void refill() noexcept {
    if (taken_) [[unlikely]]
      make();
  }

  // With one tensor, of which nothing is said. These three throw std::bad_alloc.
  SampleData& parts();
  std::unique_ptr<SampleData> take_parts();
  // Of nothing yet: Lease::begin() says of what.
  std::shared_ptr<link::Lease> take_lease();

 private:
  void make() noexcept;

  std::unique_ptr<SampleData> parts_;
  std::shared_ptr<link::Lease> lease_;
  bool taken_ = false;
};

}  // namespace tensorbus::bus
