#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tensorbus/values/device.hpp>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::tensor::mcap {

// The data of a recorded message begins with its head: a description, a table of tensors, and the
// fields (docs/recording.md). The bytes of the tensors follow.

struct PlacedTensor {
  Layout layout;
  std::uint64_t offset = 0;  // of the first element, from the beginning of the data
  Device published_on{};     // the original device; the tensor's bytes are in the file
};

struct MessageHead {
  std::uint64_t fingerprint = 0;
  std::uint64_t sequence = 0;
  std::vector<PlacedTensor> tensors{};
  std::span<const std::byte> fields{};
};

// Returns the size of the head in bytes, with its fields.
TENSORBUS_API std::uint64_t head_bytes(const MessageHead& head);
// Appends the head without its fields, which the caller appends.
TENSORBUS_API void encode_head(const MessageHead& head, std::vector<std::byte>& bytes);

// Returns the size of the head according to `start`, the first bytes of the data. `data_bytes`: the
// size of all the data. Throws Error(kInvalidArgument).
inline constexpr std::size_t kHeadStart = 16;
TENSORBUS_API std::uint64_t head_bytes_in(std::span<const std::byte> start,
                                          std::uint64_t data_bytes);
// Decodes a head; its `fields` point into `bytes`. All tensors lie in the data, after the head.
// Throws Error(kInvalidArgument) that names the invalid value.
TENSORBUS_API MessageHead decode_head(std::span<const std::byte> bytes, std::uint64_t data_bytes);

}  // namespace tensorbus::tensor::mcap
