#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/listed.hpp>
#include <vector>

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/tensor/mcap/compression.hpp"
#include "tensorbus/tensor/mcap/mcap.hpp"
#include "tensorbus/tensor/mcap/recording_writer.hpp"

namespace tensorbus::recording {

// A publisher whose samples are recorded. Constant after construction, except for its channel.
struct RecordedPublisher {
  std::string topic;
  std::string definition;  // of its message type; empty: any, or unknown
  tensor::mcap::TextMap metadata;
  // Used by the writing thread: the publisher's channel, and the number of the file with this
  // channel.
  std::uint16_t channel = 0;
  std::uint32_t file = 0;
};

std::shared_ptr<RecordedPublisher> recorded_publisher(const PublisherInfo& info);

// A sample that waits to be written. It keeps its leases until then.
struct RecordedSample {
  std::shared_ptr<RecordedPublisher> publisher{};
  bus::Sample sample{};
  bool has_sample = false;                                 // false: only reports missing samples
  std::uint64_t bytes = 0;                                 // held
  std::uint64_t log_time = 0;                              // nanoseconds since 1970
  std::optional<tensor::mcap::Compression> compression{};  // empty: by the output's options
  std::uint64_t first_lost = 0;  // sequence of the first missing sample before it
  std::uint64_t lost = 0;        // number of missing samples
  std::string why_lost{};        // reason for the last of them; empty: no room
};

// Returns how many of the elements have a sample.
template <typename Range>
std::size_t samples_in(const Range& recorded) {
  return static_cast<std::size_t>(std::ranges::count(recorded, true, &RecordedSample::has_sample));
}
// Returns the bytes of its tensors and fields.
std::uint64_t bytes_of(const bus::Sample& sample);
// Describes a sample for the file. The result points into the sample's memory.
tensor::mcap::OutgoingMessage outgoing(const RecordedSample& recorded);

}  // namespace tensorbus::recording
