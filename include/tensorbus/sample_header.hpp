#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tensorbus/id.hpp>
#include <tensorbus/origin.hpp>

namespace tensorbus::inline v0 {

// What comes with the tensors of every sample.
struct SampleHeader {
  std::uint64_t sequence = 0;      // counts from 0 for each publisher
  std::uint64_t timestamp_ns = 0;  // wall clock at publish
  std::uint64_t fingerprint = 0;   // of the message type; 0: untyped
  Id publisher;                    // the participant that published it
  std::uint32_t publisher_number = 0;
  std::string_view topic;        // valid while the sample lives
  std::optional<Origin> origin;  // set if a bridge brought it from elsewhere
};

}  // namespace tensorbus::inline v0
