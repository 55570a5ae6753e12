#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/link/wire/control_fields.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/error.hpp"

// The common part of all control messages (docs/internals/protocol.md, section 2). The headers in
// this folder define the messages; control_messages.hpp lists them. Each message lists its fields
// once, in visit(), for writing and reading.
namespace tensorbus::link {

inline constexpr std::uint32_t kControlMagic = 0x73756274;  // "tbus"
inline constexpr std::uint16_t kProtocolVersion = 15;
// The version of all structures in shared memory: links, wake pages, descriptors, timelines.
inline constexpr std::uint32_t kLayoutVersion = 1;
inline constexpr std::size_t kMaxControlBytes = 4096;
inline constexpr std::size_t kMaxControlFds = 3;

enum class ControlType : std::uint16_t {
  kHello = 1,
  kSubscribe = 2,
  kAccepted = 3,
  kRefused = 4,
  kSegment = 5,
  kRetired = 6,
  kEnded = 7,
  kUnsubscribe = 8,
  kDone = 9,
  kEvent = 10,
  kAttach = 11,
  kAcquire = 12,
  kHandOver = 13,
  kLent = 14,
  kHanded = 15,
  kDenied = 16,
  kReturn = 17,
  kPut = 18,
  kGet = 19,
  kQueue = 20,
  kCancel = 21,
  kReply = 22,
  kFile = 23,
  kDeviceSegment = 24,
  kTimeline = 25,
  kDeviceExport = 26,
  kStage = 27,
  kPin = 29,
  kStaged = 30,
  kDeviceClosed = 31,
  kTake = 32,
  kKeep = 33,
  kInspect = 34,
  kInspected = 35,
  kTrace = 36,
  kTraced = 37,
  kQueueRing = 38,
  kQueueWake = 39,
  kJoinGetRing = 40,
  kGetRing = 41,
};

struct ControlHeader {
  std::uint32_t magic = kControlMagic;
  ControlType type = ControlType::kHello;
  std::uint16_t version = kProtocolVersion;
  std::uint32_t length = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(ControlHeader) == 16);

// A message with one field, usually the number of a link or a segment.
template <ControlType kOf, typename Number = std::uint32_t>
struct Notice {
  static constexpr ControlType kType = kOf;
  Number number = 0;
  void visit(auto& archive) { archive(number); }
};

// Returns the value of a field `code`. Throws Error(kProtocol) for an unknown code.
Code code_of(std::uint32_t code);
// Returns a peer's text with '?' for all but '\n' and printable ASCII. Python needs valid text.
std::string as_text(std::string bytes);
// As as_text(), for a peer's reason; replaces an empty reason.
std::string as_reason(std::string bytes);

// Returns the grant of a field `writable`. Throws Error(kProtocol) that names `field` if it is > 1.
memory::Grant grant_of(std::uint32_t writable, const std::string& field);

template <typename Message>
std::vector<std::byte> encode_control(const Message& message) {
  const std::vector<std::byte> body = encode_fields(message);
  const ControlHeader header{.type = Message::kType,
                             .length = static_cast<std::uint32_t>(body.size())};
  std::vector<std::byte> bytes(sizeof header + body.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
  return bytes;
}

// Returns the size of the first message of a datagram. Throws Error(kProtocol) if the message has
// no header, or if its length exceeds the datagram.
std::size_t control_bytes(std::span<const std::byte> datagram);
// Checks magic and length of one message, not the version. Throws Error(kProtocol).
ControlHeader decode_control_header(std::span<const std::byte> datagram);

// Returns the Error for a message without a handler.
Error unexpected_message(ControlType type);

// Decodes a message. Throws Error(kProtocol) unless the body is exactly this message.
template <typename Message>
Message decode_control(std::span<const std::byte> datagram) {
  return decode_fields<Message>(datagram.subspan(sizeof(ControlHeader)));
}

}  // namespace tensorbus::link
