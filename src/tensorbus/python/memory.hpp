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

// Memory that Python reads or fills: a received tensor, a loan, or a part of a file.
struct Memory {
  Layout layout;
  std::byte* first = nullptr;  // the first element
  bool writable = false;
  std::shared_ptr<void> owner;  // the lease, the loan or the mapped file
  std::string_view source;      // a received tensor's topic, or a file's path; the owner keeps it
  platform::ReadOnlyNote::From from = platform::ReadOnlyNote::From::kTopic;
  // What a write does through a library without read-only tensors, if this is not `writable`.
  enum class OnWrite {
    kEndsProcess,
    kPrivatePages,  // its pages become this process's own
    kChangesCopy,   // the memory is a copy already, or a private mapping
  };
  OnWrite on_write = OnWrite::kEndsProcess;
  // Of a tensor that overlaps others of its sample: the bytes of all of them. Else empty.
  std::span<const std::byte> overlap{};
  std::uint64_t sample = 0;  // of a received tensor: its sample's number in this process
  Device device{};
  Device published_on{};             // of a received tensor: Tensor::published_on()
  const Tensor* received = nullptr;  // the owner's tensor, if the owner is a lease
};

nb::tuple to_tuple(const Dims& dims);
Memory memory_of(const Tensor& tensor, const ReceivedSample& sample);
Memory memory_of(Loan loan);
// Points `memory`, some of these bytes, at a copy of them, which keeps no lease.
void point_at_copy(Memory& memory, std::span<const std::byte> bytes,
                   const std::shared_ptr<std::byte[]>& copy);
// Returns a copy with the alignment of the original, up to a cache line.
std::shared_ptr<std::byte[]> copy_of(std::span<const std::byte> bytes);
// Returns the bytes of its elements, and those between them.
std::span<const std::byte> touched_bytes(const Memory& memory);
// Returns a copy in main memory that may be written to, without negative strides. Elements that are
// repeated (stride 0) stay repeated. Throws Error(kUnsupported) if elements overlap in another way:
// a copy could take any number of bytes.
Memory packed(const Memory& memory);
// The device of a loan: -1 is main memory.
Device device_numbered(int ordinal);
// Throws Error(kUnsupported) if no dtype has this name.
Layout layout_named(const std::string& dtype, const std::vector<std::int64_t>& shape);

// Returns true if PyTorch's C interface can make a tensor over this memory. False if PyTorch is not
// known yet or too old, if the element type must be named afterwards, or if there are flags.
bool can_be_plain_torch(const Layout& layout, const Device& device, const Device& published_on);
bool can_be_plain_torch(const Memory& memory);
nb::object make_plain_torch(Memory memory);

// What a consumer of memory keeps that may write to it without knowing that it is read-only.
struct WriteWatch {
  std::optional<platform::ReadOnlyNote> note;
  std::optional<platform::CopyOnWrite> copy_on_write;

  // Has a write do what the memory says.
  void begin(const Memory& memory);
};

}  // namespace tensorbus::python
