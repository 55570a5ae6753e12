#include "tensorbus/bus/session/lent_sample.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace tensorbus::bus {
namespace {

// Leases on more bytes are returned at once: their memory is needed.
constexpr std::uint64_t kMaxDelayed = 16'384;

link::Entry entry_of(const link::Lent& lent) {
  link::Entry entry;
  entry.token = lent.token;
  entry.length = lent.length;
  entry.segment = lent.segment;
  entry.offset = lent.offset;
  entry.timeline = lent.mark;
  if (entry.is_inline() &&
      (lent.inline_bytes.size() != lent.length || lent.length > link::Lent::kMaxInline))
    throw Error(Code::kProtocol, "LENT.length: " + std::to_string(lent.length));
  if (entry.is_inline() && lent.length <= link::kInlineBytes)
    std::memcpy(entry.inline_bytes.data(), lent.inline_bytes.data(), lent.length);
  return entry;
}

[[noreturn]] void refuse_missing() {
  throw Error(Code::kProtocol, "LENT: its segment was not sent");
}

void require_inside(std::uint64_t offset, std::uint64_t bytes, std::size_t segment_bytes,
                    const char* what) {
  if (offset > segment_bytes || bytes > segment_bytes - offset)
    throw Error(Code::kProtocol, std::string("LENT: ") + what + " lies beyond its segment");
}

bool is_own(const tensor::TensorEntry& entry) {
  return entry.owner == 0 && span_of(entry.layout).bytes() != 0;
}

}  // namespace

LentSample::LentSample(const PeerSession& from, const link::Lent& lent, memory::Grant grant,
                       std::shared_ptr<link::LeaseIndex> lent_memory)
    : lender(std::make_shared<link::MessageLeaseSource>(from.source(), from.peer_memory(), grant,
                                                        std::move(lent_memory), lent.token)),
      lease(std::make_shared<link::Lease>(lender, lent.token)),
      entry(entry_of(lent)) {
  copy_descriptor(lent);
  require_own_tensors();
}

LentSample::LentSample(std::shared_ptr<link::MessageLeaseSource> from,
                       std::span<const std::byte> described, std::uint64_t token,
                       link::PublishedRef own_memory)
    : lender(std::move(from)),
      bytes(described.begin(), described.end()),
      own(std::move(own_memory)) {
  entry.length = static_cast<std::uint32_t>(bytes.size());
  if (bytes.size() <= link::kInlineBytes)
    std::copy(bytes.begin(), bytes.end(), entry.inline_bytes.begin());
  descriptor = tensor::Descriptor::decode(bytes);
  if (!descriptor.tensors.empty()) {
    if (descriptor.is_on_device())
      throw Error(Code::kProtocol, "an item of a ring: it is on a device");
    if (own) return;
    require_own_tensors();
    if (token == 0 && is_of_sender()) throw Error(Code::kProtocol, "an item of a ring: no lease");
  }
  entry.token = token;
  if (token != 0) lease = std::make_shared<link::Lease>(lender, token);
}

bool LentSample::is_mapped() const {
  return std::ranges::all_of(descriptor.tensors, [&](const tensor::TensorEntry& tensor) {
    if (span_of(tensor.layout).bytes() == 0) return true;
    if (tensor.kind == memory::BufferKind::kDevice) return false;
    link::LeaseSource& owner = tensor.owner == 0 ? *lender : *acquired.lenders[tensor.owner - 1U];
    return owner.find_shared_segment(tensor.segment) != nullptr;
  });
}

void LentSample::return_by(const std::shared_ptr<link::DelayedSender>& delayed) const noexcept {
  if (payload_bytes() <= kMaxDelayed) lender->return_by(delayed);
}

std::uint64_t LentSample::payload_bytes() const noexcept {
  std::uint64_t sum = descriptor.fields.size();
  for (const tensor::TensorEntry& tensor : descriptor.tensors)
    sum += static_cast<std::uint64_t>(span_of(tensor.layout).bytes());
  return sum;
}

void LentSample::copy_descriptor(const link::Lent& lent) {
  if (entry.is_inline()) {
    const auto first = std::as_bytes(std::span(lent.inline_bytes));
    bytes.assign(first.begin(), first.end());
  } else {
    const memory::BorrowedSegments::Ref& segment = lender->find_segment(entry.segment);
    if (!segment) refuse_missing();
    require_inside(entry.offset, entry.length, segment->size(), "the descriptor");
    const std::byte* const first = segment->data() + entry.offset;
    bytes.assign(first, first + entry.length);
  }
  descriptor = tensor::Descriptor::decode(bytes);
}

// Checks the sender's own tensors. For a tensor on a device, checks only that its segment came: the
// size of the segment is not known.
void LentSample::require_own_tensors() const {
  bool on_device = false;
  for (const tensor::TensorEntry& tensor : descriptor.tensors) {
    if (!is_own(tensor)) continue;
    if (tensor.kind == memory::BufferKind::kDevice) {
      const device::ImportedMemory& imported = lender->peer_memory()->imported;
      if (!imported.has(tensor.segment, lender->grant()) || imported.timeline() == nullptr)
        refuse_missing();
      on_device = true;
      continue;
    }
    const memory::BorrowedSegments::Ref& segment = lender->find_segment(tensor.segment);
    if (!segment) refuse_missing();
    const ByteSpan span = span_of(tensor.layout);
    const auto before = static_cast<std::uint64_t>(-span.begin);
    require_inside(tensor.offset - before, span.bytes(), segment->size(), "a tensor");
  }
  if (on_device) lease->on_device(device::Mark::unpack(entry.timeline));
}

bool LentSample::is_of_sender() const noexcept {
  return std::any_of(descriptor.tensors.begin(), descriptor.tensors.end(), is_own);
}

void LentSample::let_go_of_sender(memory::Grant grant,
                                  std::shared_ptr<link::LeaseIndex> lent_memory) {
  lender = std::make_shared<link::MessageLeaseSource>(lender->source(), lender->peer_memory(),
                                                      grant, std::move(lent_memory), 0);
  entry.token = 0;
  lease.reset();
}

}  // namespace tensorbus::bus
