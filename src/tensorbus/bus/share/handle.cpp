#include "tensorbus/bus/share/handle.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::string_view kTextPrefix = "tensorbus:";
constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// The format: docs/handles.md. The descriptor follows, then a checksum of all bytes before.
struct Head {
  std::uint32_t magic = 0x31684254;  // "TBh1"
  std::uint32_t tensors = 0;
  std::uint64_t number = 0;
  std::uint64_t key = 0;
  Id owner;
};
static_assert(sizeof(Head) == 40);

[[noreturn]] void refuse_handle(const std::string& why) {
  throw Error(Code::kInvalidArgument, "invalid handle: " + why);
}

// FNV-1a: detects handles that were cut or mistyped. The key detects invented handles.
std::uint32_t checksum(std::span<const std::byte> bytes) {
  std::uint32_t sum = 2166136261U;
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<std::uint32_t>(byte)) * 16777619U;
  return sum;
}

// RFC 4648, section 5, without padding.
std::string to_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const std::byte byte : bytes) {
    bits = bits << 8 | static_cast<std::uint32_t>(byte);
    for (count += 8; count >= 6; count -= 6) text += kAlphabet[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kAlphabet[bits << (6 - count) & 63];
  return text;
}

std::vector<std::byte> from_base64(std::string_view text) {
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) refuse_handle("it has a character outside of base64url");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<std::byte>(bits >> count));
  }
  // Each handle has exactly one text: the remaining bits are fewer than a character, and zero.
  if (count >= 6 || (bits & ((1U << count) - 1)) != 0) refuse_handle("it is truncated or changed");
  return bytes;
}

}  // namespace

std::vector<std::byte> Handle::bytes() const {
  tensor::Descriptor descriptor;
  descriptor.tensors.resize(described.size());
  for (std::size_t i = 0; i < described.size(); ++i) {
    descriptor.tensors[i].layout = described[i].layout;
    descriptor.tensors[i].offset = described[i].offset;
  }
  const Head head{.tensors = tensors, .number = number, .key = key, .owner = owner};
  const std::size_t described_bytes = descriptor.encoded_bytes();
  std::vector<std::byte> bytes(sizeof head + described_bytes + sizeof(std::uint32_t));
  std::memcpy(bytes.data(), &head, sizeof head);
  descriptor.encode(std::span(bytes).subspan(sizeof head, described_bytes));
  const std::uint32_t sum = checksum(std::span(bytes).first(bytes.size() - sizeof sum));
  std::memcpy(bytes.data() + bytes.size() - sizeof sum, &sum, sizeof sum);
  return bytes;
}

std::string Handle::text() const { return std::string(kTextPrefix) + to_base64(bytes()); }

Handle Handle::kept_by(const Id& keeper) const {
  Handle kept = *this;
  kept.owner = keeper;
  kept.number = key | (std::uint64_t{1} << 63);  // Shares::kKept
  return kept;
}

Handle Handle::from_bytes(std::span<const std::byte> bytes) {
  Head head;
  std::uint32_t sum = 0;
  if (bytes.size() < sizeof head + sizeof sum)
    refuse_handle("it is truncated to " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != Head().magic) refuse_handle("it does not begin like a handle of this version");
  const auto body = bytes.first(bytes.size() - sizeof sum);
  std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
  if (sum != checksum(body)) refuse_handle("its checksum is wrong: it is truncated or changed");
  Handle handle;
  handle.owner = head.owner;
  handle.number = head.number;
  handle.key = head.key;
  handle.tensors = head.tensors;
  try {
    tensor::Descriptor descriptor = tensor::Descriptor::decode(body.subspan(sizeof head));
    if (descriptor.tensors.size() > std::min<std::size_t>(head.tensors, kMaxDescribed))
      refuse_handle("it describes more tensors than it has");
    for (tensor::TensorEntry& entry : descriptor.tensors)
      handle.described.push_back({std::move(entry.layout), entry.offset});
  } catch (const Error& error) {
    if (error.code() != Code::kProtocol) throw;
    refuse_handle(error.what());
  }
  return handle;
}

Handle Handle::parse(const std::string& text) {
  if (!text.starts_with(kTextPrefix)) refuse_handle("it does not begin with \"tensorbus:\"");
  return from_bytes(from_base64(std::string_view(text).substr(kTextPrefix.size())));
}

}  // namespace tensorbus::bus
