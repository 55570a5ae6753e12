#include "tensorbus/link/wire/control.hpp"

#include <algorithm>
#include <utility>

namespace tensorbus::link {

namespace {

ControlHeader header_of(std::span<const std::byte> datagram) {
  ControlHeader header;
  if (datagram.size() < sizeof header)
    throw Error(Code::kProtocol,
                "control message: " + std::to_string(datagram.size()) + " bytes, no header");
  std::memcpy(&header, datagram.data(), sizeof header);
  if (header.magic != kControlMagic)
    throw Error(Code::kProtocol, "control message: wrong magic, this is not Tensorbus");
  return header;
}

}  // namespace

std::size_t control_bytes(std::span<const std::byte> datagram) {
  const ControlHeader header = header_of(datagram);
  if (header.length > datagram.size() - sizeof header)
    throw Error(Code::kProtocol, "control message: wrong length");
  return sizeof header + header.length;
}

ControlHeader decode_control_header(std::span<const std::byte> datagram) {
  const ControlHeader header = header_of(datagram);
  if (header.length != datagram.size() - sizeof header || header.zero != 0)
    throw Error(Code::kProtocol, "control message: wrong length");
  return header;
}

Error unexpected_message(ControlType type) {
  return {Code::kProtocol, "unexpected message of type " + std::to_string(static_cast<int>(type))};
}

Code code_of(std::uint32_t code) {
  if (code > static_cast<std::uint32_t>(Code::kTypeMismatch))
    throw Error(Code::kProtocol, "code: " + std::to_string(code));
  return static_cast<Code>(code);
}

std::string as_text(std::string bytes) {
  std::ranges::replace_if(bytes, [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  return bytes;
}

std::string as_reason(std::string bytes) {
  return bytes.empty() ? "the other process gave no reason" : as_text(std::move(bytes));
}

memory::Grant grant_of(std::uint32_t writable, const std::string& field) {
  if (writable > 1)
    throw Error(Code::kProtocol, field + ": expected 0 or 1, got " + std::to_string(writable));
  return writable == 1 ? memory::Grant::kWrite : memory::Grant::kRead;
}

}  // namespace tensorbus::link
