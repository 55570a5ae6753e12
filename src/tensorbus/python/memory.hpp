#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/platform/faults/write_fault.hpp"
#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Memory for Python to read or fill: a received tensor, a loan, or a part of a file.
struct Memory {
  Layout layout;
  std::byte* first = nullptr;  // the first element
  bool writable = false;
  std::shared_ptr<void> owner;  // the lease, the loan or the mapped file
  std::string_view source;      // topic of a received tensor, or path of a file; kept by the owner
  platform::ReadOnlyNote::From from = platform::ReadOnlyNote::From::kTopic;
  // The effect of a write, if the memory is not `writable`.
  enum class OnWrite {
    kEndsProcess,
    kPrivatePages,  // the written pages become private copies of this process
    kChangesCopy,   // changes a copy or a private mapping
  };
  OnWrite on_write = OnWrite::kEndsProcess;
  // For a tensor that overlaps other tensors of its sample: the bytes of all of them. Otherwise
  // empty.
  std::span<const std::byte> overlap{};
  std::uint64_t sample = 0;  // of a received tensor: the number of its sample in this process
  Device device{};
  Device published_on{};                  // of a received tensor: Tensor::published_on()
  const bus::Tensor* received = nullptr;  // the tensor of the owner, if the owner is a lease

  // Returns true if the program may write to the memory: to shared memory, or to its own pages.
  bool may_be_written() const noexcept {
    return writable || (device.is_host() && on_write != OnWrite::kEndsProcess);
  }
};

nb::tuple to_tuple(const Dims& dims);
Memory memory_of(const bus::Tensor& tensor, const ReceivedSample& sample);
Memory memory_of(bus::Loan loan);
// Makes `memory`, a part of `bytes`, refer to `copy`, a copy of `bytes`. The lease is released.
void point_at_copy(Memory& memory, std::span<const std::byte> bytes,
                   const std::shared_ptr<std::byte[]>& copy);
// Returns a copy with the same address modulo a cache line, so that alignments up to a cache line
// are kept.
std::shared_ptr<std::byte[]> copy_of(std::span<const std::byte> bytes);
// Returns the bytes from the lowest to the highest element.
std::span<const std::byte> touched_bytes(const Memory& memory);
// Returns a writable copy in main memory, without negative strides. Repeated elements (stride 0)
// stay repeated. Throws Error(kUnsupported) for memory on a GPU, and if elements overlap in another
// way, because the size of the copy would have no limit.
Memory packed(const Memory& memory);
// Returns the GPU with this ordinal; main memory for -1.
Device device_numbered(int ordinal);
// Throws Error(kUnsupported) if no dtype has this name.
Layout layout_named(const std::string& dtype, const std::vector<std::int64_t>& shape);

// Returns true if PyTorch's C interface can make a tensor over this memory. Returns false before
// set_torch(), for an old PyTorch, and for tensors that need more: on a GPU or published on one,
// with negative strides or flags, or of an element type that DLPack or PyTorch does not have.
bool can_be_plain_torch(const Layout& layout, const Device& device, const Device& published_on);
bool can_be_plain_torch(const Memory& memory);
nb::object make_plain_torch(Memory memory);

// Handles writes of a consumer to memory that is not `writable`. The consumer keeps this object.
struct WriteWatch {
  std::optional<platform::ReadOnlyNote> note;
  std::optional<platform::CopyOnWrite> copy_on_write;

  // From now on a write to the memory has the effect `memory.on_write`.
  void begin(const Memory& memory);
};

}  // namespace tensorbus::python
