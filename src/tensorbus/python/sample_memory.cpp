// The memory of the tensors of a received sample.
#include "tensorbus/python/sample_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/link/trace/traced_sample.hpp"

namespace tensorbus::python {
namespace {

std::vector<TensorBytes> find_special_bytes(const ReceivedSample& self) {
  std::vector<TensorBytes> found;
  for_each_run(placed_tensors(self, [](const bus::Tensor&) { return true; }),
               [&](std::byte* begin, std::byte* end, std::span<const PlacedBytes> members) {
                 const std::span<const std::byte> bytes(begin, end);
                 const bus::Tensor& first = self.tensors()[members.front().tensor];
                 const bool copied = !self.strict && !first.writable() &&
                                     first.device().is_host() &&
                                     !platform::CopyOnWrite::is_possible(bytes);
                 if (members.size() > 1 || copied)
                   found.push_back({bytes, members.size() > 1, copied, nullptr});
               });
  return found;
}

// Called with the mutex of SpecialBytes held.
std::vector<TensorBytes>& special_bytes(const ReceivedSample& self) {
  auto& found = self.special.found;
  if (!found) found = find_special_bytes(self);
  return *found;
}

bool has_overlaps(const ReceivedSample& self) {
  if (self.tensors().size() < 2) return false;
  const nb::ft_lock_guard lock(self.special.mutex);
  return std::ranges::any_of(special_bytes(self), &TensorBytes::overlap);
}

// Returns the memory that the program gets for `memory`. This is other memory if this process has
// written to the original through another sample, or if the original is too small for private
// pages.
Memory shown(const ReceivedSample& self, Memory memory) {
  show_what_was_published(memory);
  const std::byte* const first = touched_bytes(memory).data();
  if (memory.writable || memory.on_write != Memory::OnWrite::kPrivatePages) return memory;
  const nb::ft_lock_guard lock(self.special.mutex);
  std::vector<TensorBytes>& all = special_bytes(self);
  const auto end_of = [](const TensorBytes& one) { return one.bytes.data() + one.bytes.size(); };
  const auto found = std::ranges::upper_bound(all, first, {}, end_of);
  if (found == all.end() || first < found->bytes.data()) return memory;
  if (found->copied && !found->copy) found->copy = copy_of(found->bytes);
  if (found->copied)
    point_at_copy(memory, found->bytes, found->copy);
  else
    memory.overlap = found->bytes;
  return memory;
}

// Calls visit(begin, end, members) for each range of memory in which several torch tensors overlap.
template <typename Visit>
void for_each_shared_storage(const ReceivedSample& self, std::optional<std::string_view> library,
                             Visit visit) {
  if (!has_overlaps(self)) return;
  const auto is_wanted = [&](const bus::Tensor& tensor) {
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
  const std::span<const std::byte> bytes = touched_bytes(memory);
  if (memory.writable || memory.device.is_cuda() || bytes.empty()) return;
  if (!platform::CopyOnWrite::is_of_another(bytes, memory.sample)) return;
  auto again = platform::CopyOnWrite::map_again(bytes);
  if (!again) return;
  memory.first = again.get() + (memory.first - bytes.data());
  memory.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
      std::move(memory.owner), std::move(again));
  if (memory.on_write == Memory::OnWrite::kPrivatePages)
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
        whole = shown(self, std::move(whole));
        nb::list placed;
        for (const PlacedBytes& one : members)
          placed.append(nb::make_tuple(one.tensor, self.tensors()[one.tensor].data() - begin));
        list.append(nb::make_tuple(std::move(whole), placed));
      });
  return list;
}

}  // namespace tensorbus::python
