#include "tensorbus/bus/subscribe/sample_cache.hpp"

#include <new>
#include <utility>

#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::bus {

SampleCache::SampleCache() = default;
SampleCache::~SampleCache() = default;

SampleData& SampleCache::parts() {
  if (!parts_) {
    auto parts = std::make_unique_for_overwrite<SampleData>();
    parts->tensors.resize(1);
    parts_ = std::move(parts);
  }
  return *parts_;
}

std::unique_ptr<SampleData> SampleCache::take_parts() {
  parts();
  taken_ = true;
  return std::move(parts_);
}

std::shared_ptr<link::Lease> SampleCache::take_lease() {
  return lease_ ? std::move(lease_) : std::make_shared<link::Lease>();
}

void SampleCache::make() noexcept {
  taken_ = false;
  try {
    parts();
    if (!lease_) lease_ = std::make_shared<link::Lease>();
  } catch (const std::bad_alloc&) {  // the parts are allocated when they are needed
  }
}

}  // namespace tensorbus::bus
