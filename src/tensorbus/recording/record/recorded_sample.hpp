#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/listed.hpp>
#include <vector>

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/tensor/recording/compression.hpp"
#include "tensorbus/tensor/recording/mcap.hpp"
#include "tensorbus/tensor/recording/recording_writer.hpp"

namespace tensorbus::bus {

// A publisher whose samples are recorded. Constant after construction, but for its channel.
struct RecordedPublisher {
  std::string topic;
  std::string definition;  // of its message type; empty: any, or not known
  recording::TextMap metadata;
  // For the writing thread: its channel, and in which file, by the number, it has that one.
  std::uint16_t channel = 0;
  std::uint32_t file = 0;
};

std::shared_ptr<RecordedPublisher> recorded_publisher(const PublisherInfo& info);

// A sample that waits to be written, and keeps its leases until then.
struct RecordedSample {
  std::shared_ptr<RecordedPublisher> publisher{};
  Sample sample{};
  bool has_sample = false;     // false: only samples that are missing are told of
  std::uint64_t bytes = 0;     // that it holds
  std::uint64_t log_time = 0;  // nanoseconds since 1970
  std::optional<recording::Compression> compression{};  // empty: as the output's options say
  std::uint64_t first_lost = 0;  // the sequence of the first sample before it that is missing
  std::uint64_t lost = 0;        // how many are missing
  std::string why_lost{};        // of the last of them; empty: for want of room
};

// Returns how many have a sample.
template <typename Range>
std::size_t samples_in(const Range& recorded) {
  return static_cast<std::size_t>(std::ranges::count(recorded, true, &RecordedSample::has_sample));
}
// Returns the bytes of its tensors and fields.
std::uint64_t bytes_of(const Sample& sample);
// Describes a sample for the file. It points at the sample's memory.
recording::OutgoingMessage outgoing(const RecordedSample& recorded);

}  // namespace tensorbus::bus
