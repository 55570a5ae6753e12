#include "tensorbus/bus/queue/reoffer.hpp"

#include <algorithm>
#include <utility>

namespace tensorbus::bus {
namespace {

// The parts of a Reoffer.
struct Names {
  tensor::Descriptor descriptor;
  OneOrMany<memory::BlockRef> blocks;  // blocks of this participant
  OneOrMany<memory::SegmentId> files;  // files of this participant
  OneOrMany<std::shared_ptr<const void>> kept;
};

// Refers to memory of this participant that was passed back.
void name_own(ParticipantContext& context, tensor::TensorEntry& entry, Names& names) {
  entry.owner = 0;
  if (auto file = context.arena->files().find(entry.segment)) {
    names.files.push_back(entry.segment);
    names.kept.push_back(std::move(file));
    return;
  }
  const auto first =
      entry.offset + static_cast<std::uint64_t>(span_of(entry.layout).begin);  // its lowest byte
  memory::BlockRef block = context.find_block(entry.segment, first, entry.generation);
  if (!block) throw Error(Code::kClosed, "the memory of an item that was handed on is gone");
  if (std::find(names.blocks.begin(), names.blocks.end(), block) == names.blocks.end())
    names.blocks.push_back(std::move(block));
}

void name_others(const Id& owner, tensor::TensorEntry& entry, Names& names) {
  std::vector<Id>& owners = names.descriptor.owners;
  auto found = std::find(owners.begin(), owners.end(), owner);
  if (found == owners.end()) found = owners.insert(found, owner);
  entry.owner = static_cast<std::uint16_t>(found - owners.begin() + 1);
}

const Id& owner_of(const tensor::TensorEntry& entry, const LentSample& held) {
  return entry.owner == 0 ? held.lender->source()->participant
                          : held.descriptor.owners[entry.owner - 1U];
}

bool is_in_host_memory_of(const Id& owner, const LentSample& held) {
  return std::ranges::all_of(held.descriptor.tensors, [&](const tensor::TensorEntry& entry) {
    return span_of(entry.layout).bytes() == 0 ||
           (entry.kind != memory::BufferKind::kDevice && owner_of(entry, held) == owner);
  });
}

Names names_of(ParticipantContext& context, const LentSample& held) {
  Names names;
  names.descriptor.tensors = held.descriptor.tensors;
  names.descriptor.origin = held.descriptor.origin;
  names.descriptor.fields = held.descriptor.fields;
  for (tensor::TensorEntry& entry : names.descriptor.tensors) {
    const Id& owner = owner_of(entry, held);
    entry.owner = 0;
    if (span_of(entry.layout).bytes() == 0) continue;  // no bytes to refer to
    if (owner == context.self)
      name_own(context, entry, names);
    else
      name_others(owner, entry, names);
  }
  return names;
}

link::Entry described(ParticipantContext& context, Names& names, memory::Grant grant) {
  link::Entry entry;
  const std::size_t bytes = names.descriptor.encoded_bytes();
  entry.length = static_cast<std::uint32_t>(bytes);
  if (bytes <= link::kInlineBytes) {
    names.descriptor.encode(std::span(entry.inline_bytes).first(bytes));
    return entry;
  }
  memory::BlockRef block = context.arena->allocate(bytes, grant);
  block->mark_published();
  names.descriptor.encode({block->data(), bytes});
  entry.segment = block->segment();
  entry.offset = block->offset();
  names.blocks.push_back(std::move(block));
  return entry;
}

link::PublishedRef issued(Names names, const std::shared_ptr<const LentSample>& held) {
  OneOrMany<std::shared_ptr<const link::Lease>> leases;
  if (held->lease) leases.push_back(held->lease);
  for (const auto& lease : held->acquired.leases) leases.push_back(lease);
  if (names.blocks.empty() && names.kept.empty() && leases.empty()) return nullptr;
  names.kept.push_back(held);
  return std::make_shared<link::PublishedSample>(std::move(names.blocks), std::move(names.files),
                                                 std::move(names.kept), std::move(leases));
}

}  // namespace

Reoffer reoffer(ParticipantContext& context, const std::shared_ptr<const LentSample>& held,
                memory::Grant grant) {
  Names names = names_of(context, *held);
  const link::Entry entry = described(context, names, grant);
  return {entry, issued(std::move(names), held)};
}

std::optional<OwnOffer> reoffer_own(ParticipantContext& context,
                                    const std::shared_ptr<const LentSample>& held,
                                    std::size_t max_bytes) {
  if (!is_in_host_memory_of(context.self, *held)) return std::nullopt;
  Names names = names_of(context, *held);
  OwnOffer offer;
  offer.descriptor.resize(names.descriptor.encoded_bytes());
  if (offer.descriptor.size() > max_bytes) return std::nullopt;
  names.descriptor.encode(offer.descriptor);
  offer.issued = issued(std::move(names), held);
  return offer;
}

}  // namespace tensorbus::bus
