// The memory of a received sample's tensors.
#include "tensorbus/python/sample_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/link/trace/traced_sample.hpp"

namespace tensorbus::python {
namespace {

// Copies the bytes in which a torch tensor, which must be copied, overlaps one of another library.
// The others show the copy too: what was one memory stays so.
std::vector<CopiedBytes> copied_together(const ReceivedSample& self) {
  const auto from_torch = [](const Tensor& tensor) {
    return has(tensor.layout().flags, TensorFlags::kFromTorch);
  };
  const auto tensors = self.tensors();
  std::vector<CopiedBytes> copied;
  const auto torch_count = std::ranges::count_if(tensors, from_torch);
  if (self.strict || torch_count == 0 || torch_count == std::ssize(tensors)) return copied;
  const auto is_read_on_host = [](const Tensor& tensor) {
    return !tensor.writable() && tensor.device().is_host();
  };
  for_each_overlap(placed_tensors(self, is_read_on_host),
                   [&](std::byte* begin, std::byte* end, std::span<const PlacedBytes> members) {
                     const std::span<const std::byte> bytes(begin, end);
                     const bool mixed = std::ranges::any_of(members, [&](const PlacedBytes& one) {
                       return from_torch(tensors[one.tensor]);
                     });
                     if (mixed && !platform::CopyOnWrite::is_possible(bytes))
                       copied.push_back({bytes, copy_of(bytes)});
                   });
  return copied;
}

// Returns the copy that has the byte at this address; null if there is none. With the mutex.
const CopiedBytes* copy_with(const ReceivedSample& self, const std::byte* address) {
  auto& parts = self.copied.parts;
  if (!parts) parts = copied_together(self);
  for (const CopiedBytes& whole : *parts)
    if (address >= whole.bytes.data() && address < whole.bytes.data() + whole.bytes.size())
      return &whole;
  return nullptr;
}

// Points at other memory that shows these bytes of the sample, where the original would not do.
Memory shown(const ReceivedSample& self, Memory memory) {
  show_what_was_published(memory);
  if (self.tensors().size() == 1) return memory;
  const nb::ft_lock_guard lock(self.copied.mutex);
  if (const CopiedBytes* const whole = copy_with(self, memory.first))
    point_at_copy(memory, whole->bytes, whole->copy);
  return memory;
}

// Torch tensors that overlap and must be copied get one copy, also if they cannot be views of one
// storage, since one begins within an element of another.
void copy_once(const ReceivedSample& self, const Memory& whole, std::span<const std::byte> bytes) {
  if (self.strict || whole.writable || whole.device.is_cuda()) return;
  if (platform::CopyOnWrite::is_possible(bytes)) return;
  const nb::ft_lock_guard lock(self.copied.mutex);
  if (copy_with(self, bytes.data()) == nullptr)
    self.copied.parts->push_back({bytes, copy_of(bytes)});
}

// Calls visit(begin, end, members) for each range of memory in which several torch tensors overlap.
template <typename Visit>
void for_each_shared_storage(const ReceivedSample& self, std::optional<std::string_view> library,
                             Visit visit) {
  if (self.tensors().size() < 2) return;
  const auto is_wanted = [&](const Tensor& tensor) {
    return is_for_torch(tensor.layout(), library);
  };
  for_each_overlap(placed_tensors(self, is_wanted), visit);
}

}  // namespace

void note_use(const ReceivedSample& self) noexcept {
  if (const link::TracedSample* const traced = self.traced()) [[unlikely]]
    traced->note_use();
}

bool is_for_torch(const Layout& layout, std::optional<std::string_view> library) {
  return library ? *library == "torch" : has(layout.flags, TensorFlags::kFromTorch);
}

void show_what_was_published(Memory& memory) {
  const ByteSpan span = span_of(memory.layout);
  const std::span<const std::byte> bytes(memory.first + span.begin, span.bytes());
  if (memory.writable || memory.device.is_cuda() || bytes.empty()) return;
  if (!platform::CopyOnWrite::is_of_another(bytes, memory.sample)) return;
  auto again = platform::CopyOnWrite::map_again(bytes);
  if (!again) return;
  memory.first = again.get() - span.begin;
  memory.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(memory.owner), std::move(again));
  memory.on_write = Memory::OnWrite::kChangesCopy;
}

Memory memory(const ReceivedSample& self, std::size_t index) {
  note_use(self);
  if (index >= self.tensors().size())
    throw Error(Code::kProtocol, "sample.fields: there is no tensor " + std::to_string(index));
  return shown(self, memory_of(self.tensors()[index], self));
}

bool has_shared_storages(const ReceivedSample& self, std::optional<std::string_view> library) {
  bool found = false;
  for_each_shared_storage(
      self, library, [&](std::byte*, std::byte*, std::span<const PlacedBytes>) { found = true; });
  return found;
}

nb::list shared_storages(const ReceivedSample& self, std::optional<std::string_view> library) {
  nb::list list;
  for_each_shared_storage(
      self, library, [&](std::byte* begin, std::byte* end, std::span<const PlacedBytes> members) {
        Memory whole = memory_of(self.tensors()[members.front().tensor], self);
        whole.first = begin;
        whole.layout = Layout::contiguous(DType::kUInt8, {end - begin});
        copy_once(self, whole, {begin, end});
        whole = shown(self, std::move(whole));
        nb::list placed;
        for (const PlacedBytes& one : members)
          placed.append(nb::make_tuple(one.tensor, self.tensors()[one.tensor].data() - begin));
        list.append(nb::make_tuple(std::move(whole), placed));
      });
  return list;
}

}  // namespace tensorbus::python
