#pragma once

#include <tensorbus/c/publisher.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <tensorbus/sample.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// Names the samples from which this thread makes what it publishes while the object lives, for
// `tensorbus trace` (docs/tracing.md). In a callback of an Executor the sample that is being
// handled is named already; this replaces it until the callback ends. Nothing of it is sent or kept
// unless a tracer runs.
//
//   const tensorbus::Parents parents({&left, &right});
//   publisher.publish(stereo);
class Parents {
 public:
  // The samples may go before the object. Of more than 16 the rest is left out.
  explicit Parents(std::initializer_list<const Sample*> samples) {
    std::vector<const tb_sample*> given;
    given.reserve(samples.size());
    for (const Sample* sample : samples) given.push_back(sample->sample_.get());
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
