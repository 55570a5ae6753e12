#include "tensorbus/link/trace/trace_reader.hpp"

#include <atomic>
#include <bit>

#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::link {
namespace {

int verified(const platform::Fd& memfd) {
  platform::verify_sealed_memfd(memfd.get(), kTraceBytes, "TRACED.ring");
  return memfd.get();
}

// The mapping is read-only, so only loads are allowed.
std::uint64_t load(const std::byte* word, std::memory_order order) noexcept {
  auto& shared = *const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(word));
  return std::atomic_ref(shared).load(order);
}

bool is_known(TraceEvent event) noexcept {
  return TraceEvent::kPublish <= event && event <= TraceEvent::kParent;
}

}  // namespace

TraceReader::TraceReader(const platform::Fd& memfd)
    : mapping_(verified(memfd), kTraceBytes, platform::Mapping::Access::kRead) {}

void TraceReader::read(std::vector<TraceRecord>& records) {
  // This order guarantees nothing, since writers add relaxed: the stamps show complete records.
  const std::uint64_t end = load(mapping_.data(), std::memory_order_acquire);
  if (end < next_) return;  // invalid
  const std::uint64_t oldest = end > kTraceRecords ? end - kTraceRecords : 0;
  if (next_ < oldest) {
    overwritten_ += oldest - next_;
    next_ = oldest;
  }
  std::erase_if(incomplete_, [&](std::uint64_t index) {
    if (index >= oldest) return read_one(index, records);
    ++overwritten_;
    return true;
  });
  for (; next_ != end; ++next_)
    if (!read_one(next_, records)) incomplete_.push_back(next_);
}

// Returns false if the record is not complete. Skips unknown events.
bool TraceReader::read_one(std::uint64_t index, std::vector<TraceRecord>& records) const {
  const std::byte* const at =
      mapping_.data() + kTraceHeaderBytes + index % kTraceRecords * sizeof(TraceRecord);
  TraceWords words;
  words[0] = load(at, std::memory_order_acquire);  // pairs with TraceRing::write()
  for (std::size_t i = 1; i < words.size(); ++i)
    words[i] = load(at + i * sizeof(std::uint64_t), std::memory_order_relaxed);
  if (words[0] != trace_stamp(index, words)) return false;
  const auto record = std::bit_cast<TraceRecord>(words);
  if (is_known(record.event)) records.push_back(record);
  return true;
}

}  // namespace tensorbus::link
