#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tensorbus/id.hpp>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/origin.hpp>
#include <vector>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus {

// Where a tensor of a sample lies in the arena of its owner.
struct TensorEntry {
  Layout layout;
  memory::BufferKind kind = memory::BufferKind::kHost;
  std::uint16_t owner = 0;  // 0: whoever sends the sample; i: Descriptor::owners[i - 1]
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of the first element, in the segment
  std::uint64_t generation = 0;
  ByteSpan span{};  // of the layout, as decode() found it; does not travel
};

// What a sample is: its tensors and the small fields beside them (docs/protocol.md, section 4).
struct Descriptor {
  OneOrMany<TensorEntry> tensors;
  std::optional<Origin> origin;
  std::vector<Id> owners;  // of tensors that are handed on
  std::span<const std::byte> fields;

  std::size_t encoded_bytes() const noexcept;
  // `target` has encoded_bytes().
  void encode(std::span<std::byte> target) const;
  // Takes bytes of any origin; throws Error(kProtocol) that names the field. `fields` of the result
  // points into `bytes`. Whether the tensors lie inside their segments is the caller's to check.
  static Descriptor decode(std::span<const std::byte> bytes);
  // Of the same bytes, without a look at the rest: would decode() find any tensors?
  static bool has_tensors(std::span<const std::byte> bytes) noexcept;
};

// Where the tensor lies that is all of a descriptor: in host memory of whoever sends it.
struct LoneTensor {
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t generation = 0;
  std::size_t bytes = 0;  // from there on
};

// Reads a descriptor of one contiguous tensor and nothing beside it, which is what most are: with
// up to four dimensions it fits into an entry of the ring. Nothing for any other bytes, of which
// decode() says what they are; the layout may have changed then.
std::optional<LoneTensor> decode_alone(std::span<const std::byte> bytes, Layout& layout);

// Writes the descriptor of one tensor, `offset` bytes into this block, and nothing beside it.
// Returns what it takes; 0, and nothing is written, if `target` has not so much.
std::size_t encode_alone(const Layout& layout, const memory::Block& block, std::uint64_t offset,
                         std::span<std::byte> target);
// What that takes.
std::size_t encoded_bytes_alone(const Layout& layout);

}  // namespace tensorbus
