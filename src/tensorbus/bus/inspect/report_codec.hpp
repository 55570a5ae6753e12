#pragma once

#include <cstddef>
#include <span>
#include <tensorbus/values/inspected.hpp>
#include <vector>

namespace tensorbus::bus {

inline constexpr std::size_t kMaxReportBytes = std::size_t{16} << 20;

// Encodes a report as MessagePack (docs/internals/protocol.md, section 9).
[[gnu::cold]] std::vector<std::byte> encode_report(const ParticipantReport& report);
// Decodes a report that a peer wrote. Skips unknown fields at the end of a list. Throws
// Error(kProtocol) for any other content. The decoded structs take at most 16 times as many bytes
// as the encoded report.
[[gnu::cold]] ParticipantReport decode_report(std::span<const std::byte> bytes);

}  // namespace tensorbus::bus
