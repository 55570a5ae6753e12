#include "tensorbus/link/ring/sample_ring.hpp"

#include <algorithm>
#include <cstring>

#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/prefetch.hpp"

namespace tensorbus::link {
namespace {

constexpr std::size_t kHeadWords = 7;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint32_t kRowOfReads = 4;  // consecutive reads that show that the owner is ahead
constexpr std::uint32_t kReadAhead = 3;   // positions whose cache lines are fetched in advance

// No owner reaches this position: it takes 146 years at 10^9 samples a second.
constexpr std::uint64_t kMaxPositions = std::uint64_t{1} << 62;

constexpr std::uint64_t full(std::uint64_t position) { return 2 * position + 1; }
constexpr std::uint64_t taken(std::uint64_t position) { return 2 * position + 2; }
constexpr std::uint64_t position_of(std::uint64_t state) { return (state - 1) / 2; }

// Returns the number of used words of an entry.
std::size_t words_in_use(memory::SegmentId segment, std::uint32_t length) {
  if (segment != memory::SegmentId::none()) return kHeadWords;
  const std::size_t bytes = std::min<std::size_t>(length, kInlineBytes);
  return kHeadWords + (bytes + kWordBytes - 1) / kWordBytes;
}

// Copies the words [begin, end) of a slot to their places in an entry.
void copy_words(const Slot& slot, std::size_t begin, std::size_t end, Entry& entry) {
  auto* const bytes = reinterpret_cast<std::byte*>(&entry);
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t word = slot.words[i].load(std::memory_order_relaxed);
    std::memcpy(bytes + i * kWordBytes, &word, kWordBytes);
  }
}

}  // namespace

void SampleRingWriter::push(std::uint64_t position, const Entry& entry) noexcept {
  Slot& target = slot(position);
  const auto* const bytes = reinterpret_cast<const std::byte*>(&entry);
  // Writes the second cache line first, so that it is already in transfer when the borrower sees
  // the state, which lies in the first line.
  for (std::size_t i = words_in_use(entry.segment, entry.length); i-- > 0;) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
    target.words[i].store(word, std::memory_order_relaxed);
  }
  platform::kill_point("publish.entry_written");
  // Release: after the words and the tensor's bytes; pairs with the acquire in pop().
  target.state.store(full(position), std::memory_order_release);
  platform::kill_point("publish.entry_full");
}

void SampleRingWriter::fetch_to_write(std::uint64_t position) const noexcept {
  platform::fetch_to_write(&slot(position).state);
  platform::fetch_to_write(&slot(position).words[kHeadWords]);
}

bool SampleRingWriter::drop(std::uint64_t position) noexcept {
  std::uint64_t expected = full(position);
  // Acquire on failure: the borrower popped first, and its reads of the slot come before the owner
  // overwrites it. Relaxed on success: the borrower discards its copy.
  const bool dropped = slot(position).state.compare_exchange_strong(
      expected, taken(position), std::memory_order_relaxed, std::memory_order_acquire);
  if (dropped) platform::kill_point("drop.taken");
  return dropped;
}

bool SampleRingWriter::is_taken(std::uint64_t position) const noexcept {
  // Acquire: pairs with the swap in pop(). The borrower's copy is complete before the owner
  // overwrites the slot.
  return slot(position).state.load(std::memory_order_acquire) != full(position);
}

bool SampleRingReader::pop(Entry& entry) noexcept {
  if (broken_) return false;
  // Every turn moves `next_` forward over dropped samples. With constant states, this ends in two
  // rounds: the first finds the newest state, the second reaches it.
  for (std::size_t turns = 0; turns <= 2 * slots_.size() && next_ < until_; ++turns) {
    Slot& source = slot(next_);
    __builtin_prefetch(&source.words[kHeadWords]);  // the second cache line, beside the first
    // Acquire: pairs with the release in push().
    std::uint64_t state = source.state.load(std::memory_order_acquire);
    if (state < full(next_)) {
      in_a_row_ = 0;
      return false;
    }
    if (state > taken(next_)) {  // the owner is rounds ahead: go to the oldest possible position
      broken_ = !is_possible(state);
      if (broken_) return false;
      next_ = std::max(next_ + 1, position_of(state) - slots_.size() + 1);
      continue;
    }
    if (state == full(next_)) {
      platform::fetch_to_write(&source.state);  // for the swap, while the second line arrives
      copy_words(source, 0, kHeadWords, entry);
      copy_words(source, kHeadWords, words_in_use(entry.segment, entry.length), entry);
      // Release: the copy above is complete before the owner can see the slot taken. If the owner
      // has dropped the entry, the copy may be torn and is discarded. Sequentially consistent: an
      // owner that waits for this slot sees it taken, or the borrower sees that the owner sleeps.
      if (source.state.compare_exchange_strong(state, taken(next_), std::memory_order_seq_cst,
                                               std::memory_order_relaxed)) {
        ++next_;
        fetch_next();
        platform::kill_point("receive.popped");
        return true;
      }
    }
    ++next_;
  }
  return false;
}

// After several consecutive samples, the owner has usually written more. So a later slot is fetched
// in advance, its state for writing.
void SampleRingReader::fetch_next() noexcept {
  if (++in_a_row_ < kRowOfReads) return;
  const Slot& coming = slot(next_ + kReadAhead);
  platform::fetch_to_write(&coming.state);
  __builtin_prefetch(&coming.words[kHeadWords]);
}

// All positions of this slot differ from `next_` by whole rounds.
bool SampleRingReader::is_possible(std::uint64_t state) const noexcept {
  const std::uint64_t position = position_of(state);
  return position < kMaxPositions && ((position - next_) & (slots_.size() - 1)) == 0;
}

void SampleRingReader::skip_dropped() noexcept {
  // Relaxed: a drop leaves nothing to read, so this stops at entries that may be popped.
  for (std::size_t skipped = 0; skipped < slots_.size(); ++skipped, ++next_)
    if (slot(next_).state.load(std::memory_order_relaxed) != taken(next_)) return;
}

std::optional<std::uint64_t> SampleRingReader::stop_at_newest() noexcept {
  std::optional<std::uint64_t> sequence;
  until_ = next_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    // Acquire: pairs with the release in push().
    const std::uint64_t state = slots_[i].state.load(std::memory_order_acquire);
    if (state < full(until_)) continue;
    const std::uint64_t position = position_of(state);
    if (position >= kMaxPositions || (position & (slots_.size() - 1)) != i) continue;
    until_ = position + 1;
    sequence = slots_[i].words[0].load(std::memory_order_relaxed);
  }
  return sequence;
}

bool SampleRingReader::ready() const noexcept {
  // Relaxed: pop() follows and acquires. Makes the same comparison as pop(), so that both agree.
  const std::uint64_t state = slot(next_).state.load(std::memory_order_relaxed);
  return !broken_ && next_ < until_ && state >= full(next_);
}

}  // namespace tensorbus::link
