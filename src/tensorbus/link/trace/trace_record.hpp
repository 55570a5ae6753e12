#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tensorbus/values/id.hpp>

// The records of a trace ring (docs/tracing.md).
namespace tensorbus::link {

inline constexpr std::uint32_t kTraceLayout = 1;
inline constexpr std::size_t kTraceRecords = 65536;  // in a ring; a power of two
inline constexpr std::size_t kTraceHeaderBytes = 4096;

enum class TraceEvent : std::uint32_t {
  kPublish = 1,
  kReceive = 2,
  kUse = 3,
  kRelease = 4,
  kParent = 5,
};

// Identifies a sample on its machine.
struct SampleName {
  Id participant;
  std::uint32_t publisher = 0;
  std::uint64_t sequence = 0;
};

struct TraceRecord {
  std::uint64_t stamp = 0;  // (index + 1) XOR the checksum of the other words
  std::uint64_t time_ns = 0;
  TraceEvent event = TraceEvent::kPublish;
  std::uint32_t thread = 0;
  Id participant;
  std::uint32_t publisher = 0;
  std::uint32_t child_publisher = 0;
  std::uint64_t sequence = 0;
  std::uint64_t child_sequence = 0;
};
static_assert(sizeof(TraceRecord) == 64);

using TraceWords = std::array<std::uint64_t, sizeof(TraceRecord) / sizeof(std::uint64_t)>;
static_assert(sizeof(TraceWords) == sizeof(TraceRecord));
inline constexpr std::size_t kTraceBytes = kTraceHeaderBytes + kTraceRecords * sizeof(TraceWords);

// Returns the first word of the record at this index, computed from its other words.
constexpr std::uint64_t trace_stamp(std::uint64_t index, const TraceWords& words) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 32U;
  }
  return (index + 1) ^ sum;
}

}  // namespace tensorbus::link
