#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/origin.hpp>

namespace tensorbus::inline v0 {

// The data that comes with the tensors of every sample.
struct SampleHeader {
  std::uint64_t sequence = 0;      // counted from 0 for each publisher
  std::uint64_t timestamp_ns = 0;  // wall clock at publish, ns since the Unix epoch
  std::uint64_t fingerprint = 0;   // of the message type; 0: untyped
  Id publisher;                    // the participant that published it
  std::uint32_t publisher_number = 0;
  std::string_view topic;        // valid while the sample lives
  std::optional<Origin> origin;  // set if a bridge republished it
};

}  // namespace tensorbus::inline v0
