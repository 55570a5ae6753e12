#include "tensorbus/bus/publish/sample_builder.hpp"

#include <algorithm>
#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxTensors = 65535;

// Throws for imported device memory without a lease: unknown streams may write it.
void require_not_received(const std::byte* on_device) {
  if (device::ImportedMemory::any_covers(on_device))
    throw Error(Code::kUnsupported,
                "this tensor on a GPU was received by another participant of this process, or was "
                "released: publish it with the participant that received it, or copy it first");
}

// Waits for this process's writes in another owner's memory: the next reader gets a mark from the
// owner, and this mark does not include this process's streams.
void wait_for_writes(const TensorView& view) {
  const device::GpuStream stream = DeviceTensors::stream_of(view);
  stream.require_usable(DeviceTensors::kPublishing);
  stream.synchronize();
}

void point_at(tensor::TensorEntry& entry, const memory::Block& block, std::uint64_t offset) {
  entry.kind = block.kind();
  entry.segment = block.segment();
  entry.offset = block.offset() + offset;
  entry.generation = block.generation();
}

}  // namespace

SampleBuilder::SampleBuilder(std::span<const TensorView> tensors, const Message& rest,
                             const Supplies& supplies, const memory::BlockRef* loan)
    : max_grant_(supplies.pool.most) {
  if (tensors.size() > kMaxTensors)
    throw Error(Code::kInvalidArgument, std::to_string(tensors.size()) +
                                            " tensors in one message; at most 65535 are possible");
  try {
    tensor::Descriptor& descriptor = descriptor_;
    descriptor.origin = rest.origin;
    descriptor.fields = rest.fields;
    ready_.bytes = rest.fields.size();
    const std::size_t copy_bytes = place_tensors(tensors, supplies, loan, descriptor);

    // One block holds all copies, then the descriptor if it does not fit into the entry.
    const std::size_t descriptor_bytes = descriptor.encoded_bytes();
    const bool rides_inline = descriptor_bytes <= link::kInlineBytes;
    const std::size_t block_bytes = copy_bytes + (rides_inline ? 0 : descriptor_bytes);
    memory::Block* block = nullptr;
    if (block_bytes > 0) {
      blocks_.push_back(supplies.blocks.allocate(block_bytes));
      block = &*blocks_.back();
      block->mark_published();
      copy_tensors(*block, copy_bytes, supplies.copies, descriptor);
    }
    platform::kill_point("publish.copied");

    link::Entry& entry = ready_.entry;
    entry.fingerprint = rest.fingerprint;
    entry.length = static_cast<std::uint32_t>(descriptor_bytes);
    if (rides_inline) {
      descriptor.encode(std::span(entry.inline_bytes).first(descriptor_bytes));
    } else {
      entry.segment = block->segment();
      entry.offset = block->offset() + copy_bytes;
      descriptor.encode({block->data() + copy_bytes, descriptor_bytes});
    }
    descriptor.fields = {};  // the caller owns the bytes
    device_tensors_.mark(supplies.device_memory.marks(), blocks_);
    ready_.writer = device_tensors_.writer();
    platform::kill_point("publish.described");
    if (!blocks_.empty() || !kept_.empty() || !leases_.empty())
      ready_.issued = std::make_shared<link::PublishedSample>(std::move(blocks_), std::move(files_),
                                                              std::move(kept_), std::move(leases_));
  } catch (...) {
    return_loans();
    throw;
  }
}

// Finds tensors to pass by reference and plans copies of the rest. Returns the size of the copies.
std::size_t SampleBuilder::place_tensors(std::span<const TensorView> tensors,
                                         const Supplies& supplies, const memory::BlockRef* loan,
                                         tensor::Descriptor& descriptor) {
  if (tensors.empty()) return 0;
  descriptor.tensors.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& view = tensors[i];
    tensor::TensorEntry& entry = descriptor.tensors[i];
    const auto* data = static_cast<const std::byte*>(view.data);
    const ByteSpan span = span_of(view.layout);
    const bool empty = span.bytes() == 0;  // no bytes to refer to
    ready_.bytes += span.bytes();
    if (data == nullptr && !empty)
      throw Error(Code::kInvalidArgument,
                  "tensor " + std::to_string(i) + " has elements but no memory: its data is null");
    const memory::Block* block = empty ? nullptr : take_loan(view, span, supplies, loan);
    if (block != nullptr) point_at(entry, *block, static_cast<std::uint64_t>(data - block->data()));
    if (block != nullptr || empty || lend_file(entry, data, span, supplies) ||
        hand_on(entry, view, span, supplies, descriptor) ||
        lend_foreign(entry, view, span, supplies) || copy_on_device(i, view, span))
      entry.layout = view.layout;
    else
      copies_.add(i, view, span, tensors.size() - i);
  }
  if (device_tensors_.has_copies()) copy_on_devices(tensors, supplies, descriptor);
  if (copies_.copies().empty()) return 0;
  const std::size_t copy_bytes = copies_.lay_out();
  for (const CopyPlan::Copy& copy : copies_.copies())
    descriptor.tensors[copy.tensor].layout = copy.layout;
  return copy_bytes;
}

void SampleBuilder::copy_tensors(memory::Block& block, std::size_t bytes, CopyTuner& copies,
                                 tensor::Descriptor& descriptor) {
  copies.run(bytes, [&](tensor::Stores stores) {
    ready_.copied_bytes += copies_.fill(block.data(), stores);
  });
  for (const CopyPlan::Copy& copy : copies_.copies())
    point_at(descriptor.tensors[copy.tensor], block,
             copy.place - static_cast<std::uint64_t>(span_of(copy.layout).begin));
}

// Lends a mapped file, which other processes can map, too. Returns false for a copy-on-write
// mapping. Throws Error(kSystem) if the file has changed.
bool SampleBuilder::lend_file(tensor::TensorEntry& entry, const std::byte* data,
                              const ByteSpan& span, const Supplies& supplies) {
  using Mode = memory::MappedFile::Mode;
  const memory::MappedFile* const file = memory::MappedFile::at(data);
  if (file == nullptr || file->mode() == Mode::kCopyOnWrite) return false;
  if (supplies.pool.most == memory::Grant::kWrite && file->mode() != Mode::kReadWrite) return false;
  const std::byte* const first = data + span.begin;
  const auto pages = file->pages();
  if (first < pages.data() || first + span.bytes() > pages.data() + pages.size()) return false;
  auto kept = file->weak_from_this().lock();
  if (!kept) return false;  // its holder may unmap it at any time
  file->check();
  entry.kind = memory::BufferKind::kFile;
  entry.segment = supplies.arena.files().number_of(kept);
  entry.offset = static_cast<std::uint64_t>(data - pages.data());
  if (std::find(files_.begin(), files_.end(), entry.segment) == files_.end())
    files_.push_back(entry.segment);
  kept_.push_back(std::move(kept));
  return true;
}

// Passes borrowed memory on, under the name that its owner uses. Returns false unless this
// publisher grants exactly the access that the owner granted.
bool SampleBuilder::hand_on(tensor::TensorEntry& entry, const TensorView& view,
                            const ByteSpan& span, const Supplies& supplies,
                            tensor::Descriptor& descriptor) {
  if (view.device.is_host() && supplies.pool.number != 0) return false;  // copied
  const auto* const first = static_cast<const std::byte*>(view.data) + span.begin;
  auto found = !view.device.is_host()  // searches all: a copy would wait for its writer
                   ? supplies.lent.find(first, span.bytes(), link::LeaseIndex::kAll)
                   : supplies.lent.find(first, span.bytes());
  if (!found || found->place.grant != supplies.pool.most) return false;
  const link::Place& place = found->place;
  if (!view.device.is_host() && place.grant == memory::Grant::kWrite) wait_for_writes(view);
  entry.segment = place.segment;
  entry.offset = place.offset - static_cast<std::uint64_t>(span.begin);
  entry.generation = place.generation;
  if (place.owner == supplies.self) {  // memory of this participant
    memory::BlockRef block =
        place.segment.on_device()
            ? supplies.device_memory.find(place.segment, place.offset, place.generation)
            : supplies.arena.find(place.segment, place.offset, place.generation);
    if (!block || block->pool().number != 0) return false;  // isolated: copied
    entry.kind = block->kind();
    hold(std::move(block));
    return true;
  }
  if (place.segment.on_device()) entry.kind = memory::BufferKind::kDevice;
  std::vector<Id>& owners = descriptor.owners;
  auto owner = std::find(owners.begin(), owners.end(), place.owner);
  if (owner == owners.end()) owner = owners.insert(owner, place.owner);
  entry.owner = static_cast<std::uint16_t>(owner - owners.begin() + 1);
  leases_.push_back(std::move(found->lease));
  return true;
}

// Lends GPU memory of another allocator if the view has a keeper and the memory can be exported.
bool SampleBuilder::lend_foreign(tensor::TensorEntry& entry, const TensorView& view,
                                 const ByteSpan& span, const Supplies& supplies) {
  if (view.device.is_host() || !view.keeper || supplies.pool.most == memory::Grant::kWrite)
    return false;
  require_not_received(static_cast<const std::byte*>(view.data) + span.begin);
  device_tensors_.add(view);
  memory::BlockRef block = supplies.device_memory.exports().lend(
      device::Gpu::at(view.device.ordinal), static_cast<const std::byte*>(view.data) + span.begin,
      span.bytes(), view.keeper);
  if (!block) return false;
  point_at(entry, *block, static_cast<std::uint64_t>(-span.begin));
  block->mark_published();
  blocks_.push_back(std::move(block));
  return true;
}

// Plans a copy, on the same GPU, of a tensor that cannot be lent. copy_on_devices() makes all
// copies.
bool SampleBuilder::copy_on_device(std::size_t tensor, const TensorView& view,
                                   const ByteSpan& span) {
  if (view.device.is_host()) return false;
  require_not_received(static_cast<const std::byte*>(view.data) + span.begin);
  device_tensors_.add_copy(tensor, view, span);
  return true;
}

void SampleBuilder::copy_on_devices(std::span<const TensorView> tensors, const Supplies& supplies,
                                    tensor::Descriptor& descriptor) {
  ready_.copied_bytes += device_tensors_.copy(
      [&](const Device& device, std::size_t bytes) {
        return supplies.blocks.allocate_on(device, bytes);
      },
      supplies.device_memory.marks(),
      [&](std::size_t tensor, const memory::BlockRef& block, std::size_t offset) {
        const ByteSpan span = span_of(tensors[tensor].layout);
        point_at(descriptor.tensors[tensor], *block,
                 offset + static_cast<std::uint64_t>(-span.begin));
        block->mark_published();
        hold(block);
      });
}

void SampleBuilder::hold(memory::BlockRef block) {
  if (std::find(blocks_.begin(), blocks_.end(), block) == blocks_.end())
    blocks_.push_back(std::move(block));
}

// Returns the loan of these bytes, marked as published; null if there is none, or if it must be
// copied.
memory::Block* SampleBuilder::take_loan(const TensorView& view, const ByteSpan& span,
                                        const Supplies& supplies, const memory::BlockRef* loan) {
  const std::byte* const first = static_cast<const std::byte*>(view.data) + span.begin;
  const bool on_device = !view.device.is_host();
  memory::BlockRef block =
      on_device ? supplies.device_memory.find(first) : supplies.arena.find(first);
  if (loan != nullptr && block != *loan)
    throw Error(Code::kInvalidArgument,
                "this loan belongs to another participant: take the loan from the publisher that "
                "publishes it, or publish a copy");
  if (!block) return nullptr;
  if (on_device) device_tensors_.add(view);
  if (first + span.bytes() > block->data() + block->bytes())
    throw Error(Code::kInvalidArgument, "the tensor reaches beyond the end of its loan");
  const bool fits = block->max_grant() == supplies.pool.most;
  const bool apart = !on_device && block->pool().number != supplies.pool.number;
  if (apart || (!fits && block->copied_where_it_does_not_fit())) return nullptr;  // copied
  if (!fits)
    throw Error(
        Code::kInvalidArgument,
        supplies.pool.most == memory::Grant::kWrite
            ? "this publisher is shared, but this loan belongs to one that is not: take the loan "
              "from the publisher that publishes it, or publish a copy"
            : "this loan belongs to a shared publisher, whose subscribers could write to it: take "
              "the loan from the publisher that publishes it, or publish a copy");
  memory::Block* found = &*block;
  if (std::find(blocks_.begin(), blocks_.end(), block) != blocks_.end()) return found;
  blocks_.push_back(std::move(block));
  if (found->persistent()) return found;
  marked_.push_back(found);  // first: push_back() may throw
  if (found->mark_published()) return found;
  marked_.pop_back();
  if (supplies.again) return found;
  throw Error(Code::kInvalidArgument,
              "this loan was published before: its memory belongs to its readers now. Take a "
              "new loan for each sample, or publish a copy");
}

void SampleBuilder::return_loans() noexcept {
  for (memory::Block* block : marked_) block->unmark_published();
  marked_.clear();
}

}  // namespace tensorbus::bus
