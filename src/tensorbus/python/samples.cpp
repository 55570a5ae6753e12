// Received samples.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/codec/sample_source.hpp"
#include "tensorbus/python/memory.hpp"
#include "tensorbus/python/sample_memory.hpp"

namespace tensorbus::python {
namespace {

nb::bytes field_bytes(const ReceivedSample& self) {
  note_use(self);
  const auto bytes = self.field_bytes();
  return nb::bytes(bytes.data(), bytes.size());
}

// Below this size a copy is faster than the page faults that make pages private.
constexpr std::size_t kCopiedBytes = 65536;

// The memory of a tensor to which this process may write. Its writes are private: they are not
// visible in other processes and in other received tensors. The memory stays shared until the first
// write.
struct OwnWrites {
  OwnWrites(const Memory& memory, std::span<const std::byte> bytes)
      : owner(memory.owner), writes(bytes, memory.source, memory.sample) {}

  const std::shared_ptr<void> owner;
  platform::CopyOnWrite writes;
};

// Makes `memory` refer to writable memory that no other object uses.
void make_own(Memory& memory, bool copied) {
  using platform::CopyOnWrite;
  const std::span<const std::byte> bytes = touched_bytes(memory);
  if (memory.writable || memory.device.is_cuda()) return;
  memory.writable = true;
  if (bytes.empty()) return;
  if (copied || bytes.size() < kCopiedBytes) return point_at_copy(memory, bytes, copy_of(bytes));
  const auto own = std::make_shared<OwnWrites>(memory, bytes);
  if (!own->writes.overlaps_another() && !CopyOnWrite::is_of_another(bytes, memory.sample)) {
    memory.owner = own;
    return;
  }
  const auto again = CopyOnWrite::map_again(bytes);
  if (!again) return point_at_copy(memory, bytes, copy_of(bytes));
  memory.first = again.get() + (memory.first - bytes.data());
  memory.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(memory.owner), again);
}

// Returns writable memory for each tensor. Of tensors that overlap, all but one are copied.
nb::list own_memories(const ReceivedSample& self) {
  std::vector<bool> copied(self.tensors().size());
  for_each_overlap(placed_tensors(self, [](const bus::Tensor&) { return true; }),
                   [&](std::byte*, std::byte*, std::span<const PlacedBytes> members) {
                     for (const PlacedBytes& one : members.subspan(1)) copied[one.tensor] = true;
                   });
  nb::list list;
  for (std::size_t i = 0; i < self.tensors().size(); ++i) {
    Memory memory = memory_of(self.tensors()[i], self);
    make_own(memory, copied[i]);
    list.append(nb::cast(std::move(memory)));
  }
  return list;
}

// Copies the contents that memory() shows: without writes that this process made through other
// samples.
ReceivedSample copy(const ReceivedSample& self) {
  ReceivedSample made(self.copy());
  for (std::size_t i = 0; i < self.tensors().size(); ++i) {
    const bus::Tensor& original = self.tensors()[i];
    const bus::Tensor& tensor = made.tensors()[i];
    const Memory from = memory_of(original, self);
    Memory now = from;
    show_what_was_published(now);
    const ByteSpan span = span_of(tensor.layout());
    if (now.first == from.first || tensor.strides() != original.strides()) continue;
    std::memcpy(tensor.mutable_data() + span.begin, now.first + span.begin, span.bytes());
  }
  return made;
}

constexpr std::size_t kRangeAlignment = 64;

// Arranges the tensors in one range of bytes. Tensors that overlap in memory also overlap in the
// range.
nb::tuple ranges(const ReceivedSample& self) {
  const auto tensors = self.tensors();
  for (const bus::Tensor& tensor : tensors)
    if (tensor.device().is_cuda())
      throw Error(Code::kUnsupported,
                  "this sample has a tensor on a GPU: only bytes in main memory can be sent to "
                  "another machine");
  const auto placed = placed_tensors(self, [](const bus::Tensor&) { return true; });
  nb::list runs;
  std::vector<std::int64_t> offsets(tensors.size());
  std::int64_t total = 0;
  for_each_run(placed, [&](std::byte* begin, std::byte* end, std::span<const PlacedBytes> members) {
    total = (total + kRangeAlignment - 1) / kRangeAlignment * kRangeAlignment;
    for (const PlacedBytes& one : members)
      offsets[one.tensor] = total + (tensors[one.tensor].data() - begin);
    total += end - begin;
    Memory whole = memory_of(tensors[members.front().tensor], self);
    whole.first = begin;
    whole.layout = Layout::contiguous(DType::kUInt8, {end - begin});
    whole.writable = false;
    whole.on_write = Memory::OnWrite::kEndsProcess;  // the caller only reads
    show_what_was_published(whole);
    runs.append(checked(PyMemoryView_FromObject(nb::cast(std::move(whole)).ptr())));
  });
  nb::list described;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout& layout = tensors[i].layout();
    described.append(nb::make_tuple(name_of(layout.dtype), to_tuple(layout.shape),
                                    to_tuple(layout.strides), static_cast<unsigned>(layout.flags),
                                    offsets[i]));
  }
  return nb::make_tuple(runs, total, described);
}

nb::object origin(const ReceivedSample& self) {
  const link::MirrorOrigin* const mirrored = self.mirrored();
  if (mirrored == nullptr) return nb::none();
  return nb::make_tuple(python::text_of(mirrored->machine), python::text_of(mirrored->publisher));
}

nb::tuple published_on(const ReceivedSample& self) {
  nb::list list;
  for (std::size_t i = 0; i < self.tensors().size(); ++i)
    list.append(nb::cast(memory(self, i)).attr("published_on"));
  return nb::tuple(list);
}

void use_on(const ReceivedSample& self, std::uintptr_t stream, int of) {
  const auto device = of < 0 ? std::nullopt : std::optional(Device::cuda(of));
  for (const bus::Tensor& tensor : self.tensors())
    tensor.use_on(reinterpret_cast<void*>(stream), device);
}

bool intact(const ReceivedSample& self) {
  return std::ranges::all_of(self.tensors(),
                             [](const bus::Tensor& tensor) { return tensor.intact(); });
}

nb::object tensor(const ReceivedSample& self, std::size_t index,
                  std::optional<std::string_view> as) {
  Memory found = memory(self, index);
  const bool plain = is_for_torch(found.layout, as) && can_be_plain_torch(found);
  return plain ? make_plain_torch(std::move(found)) : nb::cast(std::move(found));
}

nb::list tensors(const ReceivedSample& self, std::optional<std::string_view> as) {
  nb::list list;
  for (std::size_t i = 0; i < self.tensors().size(); ++i) list.append(tensor(self, i, as));
  return list;
}

}  // namespace

void bind_samples(nb::module_& module) {
  nb::class_<ReceivedSample>(module, "Sample", "A received message.")
      .def_prop_ro("sequence", [](const ReceivedSample& self) { return self.header().sequence; })
      .def_prop_ro("timestamp_ns",
                   [](const ReceivedSample& self) { return self.header().timestamp_ns; })
      .def_prop_ro("fingerprint",
                   [](const ReceivedSample& self) { return self.header().fingerprint; })
      .def_prop_ro("topic", [](const ReceivedSample& self) { return self.header().topic; })
      .def_prop_ro("publisher",
                   [](const ReceivedSample& self) { return self.header().publisher.hex(); })
      .def_prop_ro("publisher_number",
                   [](const ReceivedSample& self) { return self.header().publisher_number; })
      .def_prop_ro("origin", origin, nb::sig("def origin(self) -> tuple[str, str] | None"),
                   "For a sample of a mirror: the original machine, and the name of the publisher "
                   "on that machine.")
      .def("ranges", ranges,
           nb::sig("def ranges(self) -> tuple[list[memoryview], int, "
                   "list[tuple[str, tuple[int, ...], tuple[int, ...], int, int]]]"),
           "Returns the tensors as one run of bytes: the parts of the run; the size of the run in "
           "bytes; and for each tensor its dtype, shape, strides in elements, flags, and the "
           "offset of its first element in the run. Each part begins at the next multiple of 64 "
           "bytes after the end of the part before.")
      .def_prop_ro("published_on", published_on,
                   nb::sig("def published_on(self) -> tuple[str, ...]"))
      .def_prop_ro("fields", field_bytes)
      .def_prop_ro("tensor_count", [](const ReceivedSample& self) { return self.tensors().size(); })
      .def("tensors", tensors, nb::arg("as_").none(),
           nb::sig("def tensors(self, as_: str | None) -> list[typing.Any]"),
           "Returns each tensor: as a torch.Tensor if `as_` is \"torch\" (None: if it was "
           "published as one) and a plain torch.Tensor is possible, otherwise as a Memory.")
      .def("message", read_sample, nb::arg("library").none(), nb::arg("plan").none(),
           nb::sig("def message(self, library: str | None, plan: MessagePlan | None) -> "
                   "typing.Any"),
           "Returns the published message with its tensors; with a plan, an instance of the "
           "message class.")
      .def("shared_storages", shared_storages, nb::arg("as_").none(),
           nb::sig("def shared_storages(self, as_: str | None) -> "
                   "list[tuple[Memory, list[tuple[int, int]]]]"),
           "Returns each range of memory in which several torch tensors overlap, with the index "
           "of each of these tensors and its offset in bytes.")
      .def("memory", memory, nb::arg("index"))
      .def("own_memories", own_memories, nb::sig("def own_memories(self) -> list[Memory]"),
           "Returns writable memory for each tensor. Writes are not visible to other processes or "
           "in other received data.")
      .def("use_on", use_on, nb::arg("stream"), nb::arg("of") = -1, nb::call_guard<WithoutGil>())
      .def_prop_ro("intact", intact)
      .def_prop_ro(
          "traced", [](const ReceivedSample& self) { return self.traced() != nullptr; },
          "True if the sample was received while a tracer was active.")
      .def("copy", copy, nb::call_guard<WithoutGil>());
}

}  // namespace tensorbus::python
