#include "tensorbus/bus/subscribe/sample_data.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <string>

#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::kProtocol, "sample: " + why); }

// Returns the bytes [offset, offset + bytes) of a mapping. Throws if the mapping is too short.
template <typename Mapping>
const std::byte* place_in(const Mapping& mapping, std::uint64_t offset, std::uint64_t bytes,
                          const char* what) {
  if (offset > mapping.size() || bytes > mapping.size() - offset)
    refuse(std::string(what) + " lies beyond its segment");
  return mapping.data() + offset;
}

std::span<const std::byte> descriptor_bytes(const link::Entry& entry,
                                            const memory::BorrowedSegments::Ref& segment) {
  if (!entry.is_inline())
    return {place_in(*segment, entry.offset, entry.length, "the descriptor"), entry.length};
  if (entry.length > link::kInlineBytes) refuse("an inline descriptor of more than 64 bytes");
  return std::span(entry.inline_bytes).first(entry.length);
}

template <typename Mapping>
const std::byte* first_element(std::uint64_t offset, const ByteSpan& span, const Mapping& mapping) {
  const auto before = static_cast<std::uint64_t>(-span.begin);
  if (offset < before) refuse("a tensor lies before its segment");
  place_in(mapping, offset - before, span.bytes(), "a tensor");
  return mapping.data() + offset;
}

link::LeaseSource& lender_of(const tensor::TensorEntry& entry, link::LeaseSource& sender,
                             const AcquiredLeases* acquired) {
  return entry.owner == 0 ? sender : *acquired->lenders[entry.owner - 1U];
}

// Calls `work` with a lease on the token. The caller keeps the token unless `work` returns kDone or
// throws an Error of the descriptor.
template <typename Work>
SampleData::Read with_lease(std::shared_ptr<link::LeaseSource> lender, std::uint64_t token,
                            Work work) {
  auto lease = std::make_shared<link::Lease>(std::move(lender), token);
  try {
    const SampleData::Read read = work(lease);
    if (read != SampleData::Read::kDone) lease->forget();
    return read;
  } catch (const Error& error) {
    if (lease && error.code() == Code::kOutOfMemory) lease->forget();
    throw;
  } catch (const std::bad_alloc&) {
    if (lease) lease->forget();
    throw;
  }
}

// Returns an inline descriptor. If it is malformed, returns the lease and throws.
tensor::Descriptor decoded(link::LeaseSource& lender, const link::Entry& entry) {
  try {
    return tensor::Descriptor::decode(descriptor_bytes(entry, {}));
  } catch (const Error&) {
    lender.give_back(entry.token, 0);
    throw;
  }
}

}  // namespace

SampleData::Read SampleData::read_lent(Sample& sample, std::shared_ptr<link::LeaseSource> owned,
                                       const link::Entry& entry, const ReceiveOptions& how,
                                       SampleCache& spare, const AcquiredLeases* acquired) {
  link::LeaseSource* const lender = owned.get();
  if (acquired == nullptr && entry.is_inline() && how.access != Access::kPrivate &&
      read_alone(sample, owned, entry, how.access, spare))
    return Read::kDone;
  memory::BorrowedSegments::Ref segment;
  if (!entry.is_inline() && !(segment = lender->find_segment(entry.segment)))
    return Read::kSegmentMissing;
  return with_lease(std::move(owned), entry.token, [&](std::shared_ptr<link::Lease>& lease) {
    return read_leased(sample, *lender, entry, how, acquired, descriptor_bytes(entry, segment),
                       lease);
  });
}

// Reads a sample of the kind that LoanedSample makes, and takes the reference to the lender.
// Returns false, without any change, for other kinds and for malformed entries.
bool SampleData::read_alone(Sample& sample, std::shared_ptr<link::LeaseSource>& owned,
                            const link::Entry& entry, Access access, SampleCache& spare) {
  if (entry.length > link::kInlineBytes || entry.timeline != 0) return false;
  SampleData& parts = spare.parts();
  Tensor& tensor = *parts.tensors.begin();
  const auto lone =
      tensor::decode_alone(std::span(entry.inline_bytes).first(entry.length), tensor.layout_);
  if (!lone || lone->bytes == 0) return false;
  link::LeaseSource& lender = *owned;
  const memory::BorrowedSegments::Ref& mapping = lender.find_segment(lone->segment);
  if (!mapping || lone->offset > mapping->size() || lone->bytes > mapping->size() - lone->offset)
    return false;
  std::shared_ptr<link::Lease> lease = spare.take_lease();
  lease->begin(std::move(owned), entry.token);
  tensor.data_ = mapping->data() + lone->offset;
  tensor.writable_ = access == Access::kShared;
  lease->keep(mapping);
  lease->add({.begin = tensor.data_,
              .bytes = lone->bytes,
              .owner = lender.source()->participant,
              .segment = lone->segment,
              .offset = lone->offset,
              .generation = lone->generation,
              .grant = grant_for(access),
              .memory = lender.peer_memory().get()});
  parts.describe(entry, lender, {}, std::nullopt);
  lender.enter(*lease);
  tensor.keeper_ = std::move(lease);
  platform::kill_point("receive.described");
  sample.parts_ = spare.take_parts();
  return true;
}

// Reads a sample that lies completely in its entry, without a lease. Reuses the memory of `sample`
// if that had only fields, too.
SampleData::Read SampleData::read_fields(Sample& sample, link::LeaseSource& lender,
                                         const link::Entry& entry) {
  const tensor::Descriptor descriptor = decoded(lender, entry);
  if (!sample.parts_ || !sample.parts_->is_of_fields())
    sample.parts_ = std::make_unique_for_overwrite<SampleData>();
  SampleData& parts = *sample.parts_;
  parts.describe(entry, lender, descriptor.fields, descriptor.origin);
  parts.inline_bytes = entry.inline_bytes;
  const auto before =
      static_cast<std::size_t>(descriptor.fields.data() - entry.inline_bytes.data());
  parts.fields = std::span(parts.inline_bytes).subspan(before, descriptor.fields.size());
  if (parts.source != lender.source()) parts.source = lender.source();
  platform::kill_point("receive.described");
  return Read::kFieldsAlone;
}

void SampleData::trace(Sample& sample, const std::shared_ptr<link::TraceRing>& ring) noexcept {
  try {
    SampleData& parts = *sample.parts_;
    const SampleHeader& header = parts.header;
    parts.traced = std::make_shared<const link::TracedSample>(
        ring, link::SampleName{header.publisher, header.publisher_number, header.sequence});
    if (const auto lease = lease_of(sample)) lease->keep(parts.traced);
  } catch (const std::bad_alloc&) {
  }
}

void SampleData::describe(const link::Entry& entry, const link::LeaseSource& from,
                          std::span<const std::byte> small_fields,
                          const std::optional<Origin>& origin) {
  const link::Source& publisher = *from.source();
  fields = small_fields;
  mirrored = publisher.origin.get();
  header = {.sequence = entry.sequence,
            .timestamp_ns = entry.timestamp_ns,
            .fingerprint = entry.fingerprint,
            .publisher = publisher.participant,
            .publisher_number = publisher.publisher,
            .topic = publisher.topic,
            .origin = origin};
}

SampleData::Read SampleData::read(Sample& sample, LentSample& held, const ReceiveOptions& how) {
  const auto let_go = [&held] {
    if (held.lease) held.lease->forget();
  };
  try {
    const Read read =
        with_lease(held.lender, held.entry.token, [&](std::shared_ptr<link::Lease>& lease) {
          return read_leased(sample, *held.lender, held.entry, how, &held.acquired, held.bytes,
                             lease);
        });
    if (read == Read::kDone) let_go();
    return read;
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) let_go();
    throw;
  }
}

// The sample's own lease has no token: it keeps `held`, which has the leases.
bool SampleData::read_held(Sample& sample, const LentRef& held, const ReceiveOptions& how) {
  if (held->descriptor.tensors.empty()) {
    read_fields(sample, *held);
    return true;
  }
  if (held->descriptor.is_on_device() || held->lender->grant() != grant_for(how.access))
    return false;
  auto lease = std::make_shared<link::Lease>(held->lender, 0);
  lease->keep(held);
  return read_leased(sample, *held->lender, held->entry, how, &held->acquired, held->bytes,
                     lease) == Read::kDone;
}

tensor::Descriptor SampleData::handed_on(link::LeaseSource& lender, const link::Entry& entry) {
  const auto bytes =
      descriptor_bytes(entry, entry.is_inline() ? nullptr : lender.find_segment(entry.segment));
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  tensor::Descriptor descriptor = tensor::Descriptor::decode(copy);
  descriptor.fields = {};
  return descriptor;
}

std::vector<OutOfReach> SampleData::out_of_reach(link::LeaseSource& lender,
                                                 const tensor::Descriptor& descriptor,
                                                 const AcquiredLeases* acquired,
                                                 const ReceiveOptions& how) {
  std::vector<OutOfReach> all;
  for (std::size_t i = 0; i < descriptor.tensors.size(); ++i) {
    const tensor::TensorEntry& from = descriptor.tensors[i];
    const ByteSpan& span = from.span;
    if (from.kind != memory::BufferKind::kDevice || span.bytes() == 0) continue;
    link::LeaseSource& owner = lender_of(from, lender, acquired);
    if (!how.in_host_memory && owner.is_usable(from.segment)) continue;
    const auto before = static_cast<std::uint64_t>(-span.begin);
    if (from.offset < before) refuse("a tensor lies before its segment");
    all.push_back({.tensor = i,
                   .owner = owner.source()->participant,
                   .first = {from.segment, from.offset - before, from.generation},
                   .bytes = span.bytes(),
                   .to_data = before});
  }
  return all;
}

// No call throws once `lease` has moved into the sample.
SampleData::Read SampleData::read_leased(Sample& sample, link::LeaseSource& lender,
                                         const link::Entry& entry, const ReceiveOptions& how,
                                         const AcquiredLeases* acquired,
                                         std::span<const std::byte> bytes,
                                         std::shared_ptr<link::Lease>& lease) {
  auto parts = std::make_unique_for_overwrite<SampleData>();
  tensor::Descriptor descriptor = tensor::Descriptor::decode(parts->copy(bytes, entry));
  if (!descriptor.owners.empty()) {
    if (acquired == nullptr) return Read::kNotAcquired;
    if (acquired->lenders.size() < descriptor.owners.size()) refuse("its owners have changed");
  }
  if (acquired != nullptr) {
    for (const auto& other : acquired->leases) lease->keep(other);
    acquired->point_at_copies(descriptor);
  }
  const Access access = how.access;
  const device::Mark whole_at = device::Mark::unpack(entry.timeline);
  parts->tensors.resize(descriptor.tensors.size());
  if (acquired != nullptr)
    for (const HostCopiedTensor& copy : acquired->staged) {
      parts->tensors[copy.tensor].published_on_ = copy.from;
      if (!how.device) lease->keep(copy.lease);
    }
  bool out_of_reach = false;
  for (std::size_t i = 0; i < descriptor.tensors.size(); ++i) {
    tensor::TensorEntry& from = descriptor.tensors[i];
    Tensor& tensor = parts->tensors[i];
    const ByteSpan& span = from.span;
    tensor.layout_ = std::move(from.layout);
    tensor.writable_ = access != Access::kRead;
    if (span.bytes() == 0) continue;  // no bytes to refer to
    link::LeaseSource& owner = lender_of(from, lender, acquired);
    if (from.kind == memory::BufferKind::kDevice) {
      // Without the timeline, the streams that use the sample could not be reported.
      if (owner.peer_memory()->imported.timeline() == nullptr) return Read::kSegmentMissing;
      const Tensor::Reach reach = tensor.find_on_device(owner, from, span, how, *lease);
      if (reach == Tensor::Reach::kSegmentMissing) return Read::kSegmentMissing;
      if (reach == Tensor::Reach::kOutOfReach) {
        out_of_reach = true;  // there may be others
        continue;
      }
      if (!lease->is_on_device()) lease->on_device(whole_at);
    } else {
      const memory::BorrowedSegments::Ref mapping = acquired != nullptr
                                                        ? owner.find_shared_segment(from.segment)
                                                        : owner.find_segment(from.segment);
      if (!mapping) return Read::kSegmentMissing;
      tensor.data_ = first_element(from.offset, span, *mapping);
      if (how.device && !tensor.published_on_.is_host()) continue;  // moves to the device
      lease->keep(mapping);
    }
    if (access != Access::kPrivate)
      lease->add({.begin = tensor.data_ + span.begin,
                  .bytes = span.bytes(),
                  .owner = owner.source()->participant,
                  .segment = from.segment,
                  .offset = from.offset + static_cast<std::uint64_t>(span.begin),
                  .generation = from.generation,
                  .grant = grant_for(access),
                  .memory = owner.peer_memory().get()});
  }
  if (out_of_reach) return Read::kOutOfReach;
  if (lease->is_on_device()) {
    if (acquired != nullptr)
      for (const auto& other : acquired->leases) lease->use_with(other);
    if (!lease->intact()) return Read::kHalfWritten;
    parts->copier = how.copier;
  }
  const bool is_private = access == Access::kPrivate;
  if (is_private && lease->is_on_device())
    parts->copy_on_devices(*how.copier, parts->tensors.span());
  if (how.device && acquired != nullptr) parts->restore(how, *acquired);
  if (is_private) parts->move_to_own_pages(lender, acquired, descriptor, *lease);
  Tensor* const leased = parts->give_keepers(lease);
  parts->describe(entry, lender, descriptor.fields, descriptor.origin);
  if (leased != nullptr) {
    lender.enter(*lease);
    leased->keeper_ = std::move(lease);
  } else {
    parts->source = lender.source();
  }
  platform::kill_point("receive.described");
  sample.parts_ = std::move(parts);
  return Read::kDone;
}

// Gives the lease to all tensors in leased memory except the last one. Returns the last one; null
// if there is none.
Tensor* SampleData::give_keepers(const std::shared_ptr<link::Lease>& lease) noexcept {
  Tensor* last = nullptr;
  for (Tensor& tensor : tensors) {
    if (tensor.data_ == nullptr || tensor.keeper_) continue;
    if (last != nullptr) last->keeper_ = lease;
    last = &tensor;
  }
  return last;
}

// Moves the tensors into private mappings of this sample: one for each segment, of the pages that
// contain its tensors. Samples do not share mappings: a written page is a private copy, which would
// hide the bytes of later samples.
void SampleData::move_to_own_pages(link::LeaseSource& lender, const AcquiredLeases* acquired,
                                   const tensor::Descriptor& descriptor, link::Lease& lease) {
  struct Own {
    memory::Range hull{~std::size_t{0}, 0};  // of the tensors, in the segment
    std::byte* first_page = nullptr;
  };
  std::map<std::pair<link::LeaseSource*, memory::SegmentId>, Own> segments;
  const auto own_of = [&](std::size_t i) -> Own& {
    const tensor::TensorEntry& entry = descriptor.tensors[i];
    return segments[{&lender_of(entry, lender, acquired), entry.segment}];
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].data_ == nullptr || !tensors[i].device_.is_host()) continue;
    const ByteSpan span = span_of(tensors[i].layout_);
    const std::uint64_t offset = descriptor.tensors[i].offset;
    memory::Range& hull = own_of(i).hull;
    hull.begin = std::min(hull.begin, offset + static_cast<std::uint64_t>(span.begin));
    hull.end = std::max(hull.end, offset + static_cast<std::uint64_t>(span.end));
  }
  for (auto& [segment, own] : segments) {
    own.hull.begin -= own.hull.begin % platform::page_bytes();
    const memory::BorrowedSegments::Ref mapping = segment.first->map_own(segment.second, own.hull);
    own.first_page = mapping->data();
    lease.keep(mapping);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].data_ == nullptr || !tensors[i].device_.is_host()) continue;
    const Own& own = own_of(i);
    tensors[i].data_ = own.first_page + (descriptor.tensors[i].offset - own.hull.begin);
  }
}

void SampleData::copy_block(std::span<const std::byte> descriptor) {
  try {
    block_bytes.assign(descriptor.begin(), descriptor.end());
  } catch (const std::bad_alloc&) {
    throw Error(Code::kOutOfMemory, "no memory for " + std::to_string(descriptor.size()) +
                                        " bytes of a sample's fields: the address space "
                                        "(RLIMIT_AS) or memory is used up. Release samples, or "
                                        "raise the limit");
  }
}

std::span<const std::byte> SampleData::copy(std::span<const std::byte> descriptor,
                                            const link::Entry& entry) {
  if (!entry.is_inline() || descriptor.size() > link::kInlineBytes) {  // long: of a LentSample
    copy_block(descriptor);
    return block_bytes;
  }
  inline_bytes = entry.inline_bytes;
  return std::span(inline_bytes).first(descriptor.size());
}

// Tensors on devices may lie in blocks of this participant, which have no lease.
std::shared_ptr<link::Lease> SampleData::lease_of(const Sample& sample) {
  for (const Tensor& tensor : sample.parts_->tensors)
    if (tensor.keeper_ && (tensor.on_device_ == nullptr ||
                           dynamic_cast<const link::Lease*>(tensor.on_device_) != nullptr))
      return std::static_pointer_cast<link::Lease>(std::const_pointer_cast<void>(tensor.keeper_));
  return nullptr;
}

Tensor::Reach Tensor::find_on_device(link::LeaseSource& owner, const tensor::TensorEntry& entry,
                                     const ByteSpan& span, const ReceiveOptions& how,
                                     link::Lease& lease) {
  if (how.in_host_memory) return Reach::kOutOfReach;
  device::ImportedMemory::Ref mapping;
  try {
    mapping = owner.find_device_memory(entry.segment);
  } catch (const Error& error) {
    if (error.code() != Code::kUnsupported && error.code() != Code::kForked) throw;
    if (how.access == Access::kShared) throw;
    return Reach::kOutOfReach;
  }
  if (!mapping) return Reach::kSegmentMissing;
  data_ = first_element(entry.offset, span, *mapping);
  device_ = published_on_ = Device::cuda(mapping->device().ordinal());
  on_device_ = &lease;
  lease.keep(mapping);
  return Reach::kYes;
}

}  // namespace tensorbus::bus
