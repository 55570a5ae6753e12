#pragma once

#include <tensorbus/c/publisher.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <tensorbus/sample.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// For `tensorbus trace` (docs/tracing.md): names the samples from which this thread makes the
// samples that it publishes while this object exists. In a callback of an Executor the sample of
// the callback is already named; a Parents object replaces it until the callback ends. Nothing is
// sent or kept unless a tracer runs.
//
//   const tensorbus::Parents parents({&left, &right});
//   publisher.publish(stereo);
class Parents {
 public:
  // Names at most the first 16 samples. The samples need not outlive the object.
  explicit Parents(std::initializer_list<const Sample*> samples) {
    std::vector<const tb_sample*> given;
    given.reserve(samples.size());
    for (const Sample* sample : samples) given.push_back(sample->sample_.get());
    tb_name_parents(given.data(), static_cast<std::uint32_t>(given.size()));
  }
  explicit Parents(std::span<const Sample> samples) {
    std::vector<const tb_sample*> given;
    given.reserve(samples.size());
    for (const Sample& sample : samples) given.push_back(sample.sample_.get());
    tb_name_parents(given.data(), static_cast<std::uint32_t>(given.size()));
  }
  explicit Parents(const Sample& sample) {
    const tb_sample* const given = sample.sample_.get();
    tb_name_parents(&given, 1);
  }
  ~Parents() { tb_name_parents(nullptr, 0); }
  Parents(const Parents&) = delete;
  Parents& operator=(const Parents&) = delete;
};

}  // namespace tensorbus::inline v0
