#pragma once

// Message types (docs/internals/protocol.md, section 2), for both connections: those that we mean,
// and what a peer may say of its own.

#include <array>
#include <cstdint>
#include <string>
#include <tensorbus/values/message_type.hpp>

#include "fuzz/fuzz.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"

namespace tensorbus::fuzz {

// Of one publisher of the owner, and of one subscriber of the borrower.
inline const MessageType& our_type() {
  static const MessageType type("robot.Pose\nframe: str = ...\nposition: array");
  return type;
}

// Some lines, right and wrong, which may be the same as ours, or fit it.
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

// Of a definition, or of none: 0, ours, and numbers that are nobody's.
inline std::uint64_t wild_fingerprint(const std::string& definition, Input& input) {
  const std::uint8_t kind = input.byte();
  if (kind >= 0xe0) return input.number();
  if (kind >= 0xd0) return our_type().fingerprint();
  std::uint64_t right = 1;
  (void)accepts([&] { right = MessageType(definition).fingerprint(); }, Code::kInvalidArgument);
  return right;
}

// Can who asks so read messages of our type?
inline bool reads_ours(const link::Subscribe& asked) {
  if (asked.fingerprint == 0 || asked.fingerprint == our_type().fingerprint()) return true;
  MessageType type;
  return accepts([&] { type = MessageType(asked.type); }, Code::kInvalidArgument) &&
         type.fingerprint() == asked.fingerprint && type.why_not(our_type()).empty();
}

}  // namespace tensorbus::fuzz
