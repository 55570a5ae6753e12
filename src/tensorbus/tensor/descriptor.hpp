#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/origin.hpp>
#include <vector>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::tensor {

// The place of a sample's tensor in the arena of its owner.
struct TensorEntry {
  Layout layout;
  memory::BufferKind kind = memory::BufferKind::kHost;
  std::uint16_t owner = 0;  // 0: the sender of the sample; i: Descriptor::owners[i - 1]
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of the first element, in bytes, in the segment
  std::uint64_t generation = 0;
  ByteSpan span{};  // of the layout, computed by decode(); is not sent
};

// The tensors of a sample, and its small fields (docs/internals/protocol.md, section 4).
struct Descriptor {
  OneOrMany<TensorEntry> tensors;
  std::optional<Origin> origin;
  std::vector<Id> owners;  // owners of tensors that are passed on
  std::span<const std::byte> fields;

  std::size_t encoded_bytes() const noexcept;
  // `target` has encoded_bytes() bytes.
  void encode(std::span<std::byte> target) const;
  // Decodes untrusted bytes. The result's `fields` points into `bytes`. The caller checks that
  // the tensors lie inside their segments. Throws Error(kProtocol) that names the field.
  static Descriptor decode(std::span<const std::byte> bytes);
  // Returns true if any tensor is on a device.
  bool is_on_device() const noexcept {
    return std::any_of(tensors.begin(), tensors.end(), [](const TensorEntry& tensor) {
      return tensor.kind == memory::BufferKind::kDevice;
    });
  }
  // Returns true if decode() would find tensors in these bytes; reads only the head.
  static bool has_tensors(std::span<const std::byte> bytes) noexcept;
};

// The place of the only tensor of a descriptor, in host memory of the sender.
struct LoneTensor {
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t generation = 0;
  std::size_t bytes = 0;  // from `offset` on
};

// Decodes a descriptor of one contiguous tensor without fields. Most descriptors are of this kind;
// with up to eight dimensions they fit into an entry of the ring. The result is empty for all other
// bytes: the caller then uses decode(), and `layout` may have changed.
std::optional<LoneTensor> decode_alone(std::span<const std::byte> bytes, Layout& layout);

// Recognizes the descriptors of one contiguous tensor of a given dtype and shape that
// decode_alone() accepts. It is faster, because these descriptors differ only in their place.
class LoneTensors {
 public:
  // `flags`: the flags that must not be set.
  LoneTensors(DType dtype, const Dims& shape, TensorFlags flags);
  std::optional<LoneTensor> find(std::span<const std::byte> descriptor) const noexcept;

 private:
  std::vector<std::byte> descriptor_;  // an example to compare with
  std::uint32_t flags_mask_ = 0;       // the compared bits of dtype, dimensions, kind and flags
  std::size_t bytes_ = 0;              // of a tensor
};

// Writes the descriptor of one tensor without fields, `offset` bytes into `block`. Returns its size
// in bytes; 0, without writing, if `target` is too small.
std::size_t encode_alone(const Layout& layout, const memory::Block& block, std::uint64_t offset,
                         std::span<std::byte> target);
// Moves the tensor of this descriptor forward by `bytes` in its block.
void move_alone(std::span<std::byte> descriptor, std::uint64_t bytes) noexcept;
// Returns the size of this descriptor in bytes.
std::size_t encoded_bytes_alone(const Layout& layout);

}  // namespace tensorbus::tensor
