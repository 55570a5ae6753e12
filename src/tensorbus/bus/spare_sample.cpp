#include "tensorbus/bus/spare_sample.hpp"

#include <new>
#include <utility>

#include "tensorbus/bus/sample_parts.hpp"

namespace tensorbus::bus {

SpareSample::SpareSample() = default;
SpareSample::~SpareSample() = default;

SampleParts& SpareSample::parts() {
  if (!parts_) {
    auto parts = std::make_unique_for_overwrite<SampleParts>();
    parts->tensors.resize(1);
    parts_ = std::move(parts);
  }
  return *parts_;
}

std::unique_ptr<SampleParts> SpareSample::take_parts() {
  parts();
  taken_ = true;
  return std::move(parts_);
}

std::shared_ptr<link::Lease> SpareSample::take_lease() {
  return lease_ ? std::move(lease_) : std::make_shared<link::Lease>();
}

void SpareSample::make() noexcept {
  taken_ = false;
  try {
    parts();
    if (!lease_) lease_ = std::make_shared<link::Lease>();
  } catch (const std::bad_alloc&) {  // it is made when it is wanted
  }
}

}  // namespace tensorbus::bus
