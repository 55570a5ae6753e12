#pragma once

#include <memory>

#include "tensorbus/link/lease.hpp"

namespace tensorbus::bus {

struct SampleParts;

// What a subscriber's next sample is made of, if that is one tensor and nothing beside it: made
// while there is nothing to receive, so that the sample does not wait for the allocator. Under the
// subscriber's mutex.
class SpareSample {
 public:
  SpareSample();
  ~SpareSample();
  SpareSample(const SpareSample&) = delete;
  SpareSample& operator=(const SpareSample&) = delete;

  // Makes the next ones, if the last ones were taken. Nothing without memory: they are made when
  // they are wanted then.
  void refill() noexcept {
    if (taken_) [[unlikely]]
      make();
  }

  // With one tensor, of which nothing is said. These three throw std::bad_alloc.
  SampleParts& parts();
  std::unique_ptr<SampleParts> take_parts();
  // Of nothing yet: Lease::begin() says of what.
  std::shared_ptr<link::Lease> take_lease();

 private:
  void make() noexcept;

  std::unique_ptr<SampleParts> parts_;
  std::shared_ptr<link::Lease> lease_;
  bool taken_ = false;
};

}  // namespace tensorbus::bus
