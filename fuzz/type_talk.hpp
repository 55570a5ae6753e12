#pragma once

// Message types (docs/internals/protocol.md, section 2), for both connections: the type of this
// participant, and definitions that a peer may send.

#include <array>
#include <cstdint>
#include <string>
#include <tensorbus/values/message_type.hpp>

#include "fuzz/fuzz.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"

namespace tensorbus::fuzz {

// The type of one publisher of the owner, and of one subscriber of the borrower.
inline const MessageType& our_type() {
  static const MessageType type("robot.Pose\nframe: str = ...\nposition: array");
  return type;
}

// Returns some lines, valid and invalid. They may equal our_type(), or fit it.
inline std::string wild_definition(Input& input) {
  static const std::array<std::string, 12> kLines = {"robot.Pose",
                                                     "frame: str = ...",
                                                     "position: array",
                                                     "frame: str",
                                                     "position: array = ...",
                                                     "position: tensor",
                                                     "stamp: int = ...",
                                                     "stamp: int",
                                                     "robot.\xc3",
                                                     "no field",
                                                     "",
                                                     std::string(link::kMaxDefinition, 'n')};
  const std::uint8_t kind = input.byte();
  if (kind < 0x20) return our_type().definition();
  if (kind < 0x40) return std::string(text_of(input.bytes(input.byte())));
  std::string text = kind < 0xe0 ? kLines[0] : kLines[input.byte() % kLines.size()];
  for (std::uint32_t left = kind % 4; left > 0; --left)
    text += "\n" + kLines[input.byte() % kLines.size()];
  return text;
}

// Returns the fingerprint of the definition, that of our_type(), or any number.
inline std::uint64_t wild_fingerprint(const std::string& definition, Input& input) {
  const std::uint8_t kind = input.byte();
  if (kind >= 0xe0) return input.number();
  if (kind >= 0xd0) return our_type().fingerprint();
  std::uint64_t right = 1;
  (void)accepts([&] { right = MessageType(definition).fingerprint(); }, Code::kInvalidArgument);
  return right;
}

// Returns true if this subscriber can read messages of our_type().
inline bool reads_ours(const link::Subscribe& asked) {
  if (asked.fingerprint == 0 || asked.fingerprint == our_type().fingerprint()) return true;
  MessageType type;
  return accepts([&] { type = MessageType(asked.type); }, Code::kInvalidArgument) &&
         type.fingerprint() == asked.fingerprint && type.why_not(our_type()).empty();
}

}  // namespace tensorbus::fuzz
