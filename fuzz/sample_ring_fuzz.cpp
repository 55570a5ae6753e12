// The borrower's end of a sample ring whose owner writes any data between two calls. The heap has
// no more slots than the ring, so that a read beyond them is found.

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::fuzz {
namespace {

constexpr std::size_t kTokenWord = 2;
constexpr std::size_t kHeadBytes = 56;  // of an entry, before the inline bytes

class Ring {
 public:
  explicit Ring(std::size_t count)
      : count_(count),
        slots_(std::make_unique<link::Slot[]>(count)),
        reader_(all()),
        writer_(all()) {}

  void push(std::uint64_t position, const link::Entry& entry) { writer_.push(position, entry); }
  // Afterwards, positions may also decrease: an owner that does this loses only its own samples.
  void spoil() { spoiled_ = true; }
  void drop(std::uint64_t position) { (void)writer_.drop(position); }
  void overwrite(std::size_t slot, std::size_t word, std::uint64_t value) {
    spoil();
    if (word == 0)
      slots_[slot % count_].state = value;
    else
      slots_[slot % count_].words[word % 15] = value;
  }

  // Pops an entry: it is a copy of a full slot with a later position than the last entry. No other
  // slot changes.
  void pop() {
    const std::vector<std::uint64_t> before = states();
    const bool ready = reader_.ready();
    link::Entry entry;
    if (!reader_.pop(entry)) {
      // After a failed pop(), ready() is false as long as the owner writes nothing.
      check(!reader_.ready() && (spoiled_ || !reader_.broken()));
      return check(states() == before);
    }
    check(ready);
    const std::vector<std::uint64_t> after = states();
    std::optional<std::size_t> taken;
    for (std::size_t i = 0; i < count_; ++i) {
      if (after[i] == before[i]) continue;
      check(!taken && after[i] == before[i] + 1 && before[i] % 2 == 1);
      taken = i;
    }
    check(taken.has_value());
    const std::uint64_t position = before[*taken] / 2;
    check(position % count_ == *taken);
    check(spoiled_ || position >= next_);
    next_ = position + 1;
    require_copy(entry, slots_[*taken]);
  }

 private:
  std::span<link::Slot> all() { return {slots_.get(), count_}; }
  std::vector<std::uint64_t> states() {
    std::vector<std::uint64_t> states;
    for (const link::Slot& slot : all()) states.push_back(slot.state);
    return states;
  }
  static void require_copy(const link::Entry& entry, const link::Slot& slot) {
    std::array<std::uint64_t, 15> words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = slot.words[i];
    check(entry.token == words[kTokenWord]);
    const std::size_t inline_bytes =
        entry.is_inline() ? std::min<std::size_t>(entry.length, link::kInlineBytes) : 0;
    check(std::memcmp(&entry, words.data(), kHeadBytes + inline_bytes) == 0);
  }

  const std::size_t count_;
  const std::unique_ptr<link::Slot[]> slots_;
  link::SampleRingReader reader_;
  link::SampleRingWriter writer_;
  std::uint64_t next_ = 0;
  bool spoiled_ = false;
};

void run(Input input) {
  Ring ring(std::size_t{1} << input.below(5));
  std::uint64_t position = 0;
  while (!input.empty()) {
    switch (input.below(6)) {
      case 0: {  // as an honest owner does
        link::Entry entry;
        entry.token = position;
        entry.length = input.byte();
        entry.segment = input.flag() ? memory::SegmentId::none() : 0;
        ring.push(position++, entry);
        break;
      }
      case 1:
        ring.drop(position - input.byte());
        break;
      case 2:
        position += input.number();
        ring.spoil();
        break;
      case 3: {  // a possible state
        const std::uint64_t near = position + input.take<std::int8_t>();
        ring.overwrite(static_cast<std::size_t>(near), 0, 2 * near + input.below(3));
        break;
      }
      case 4: {
        const std::size_t slot = input.byte();
        const std::size_t word = input.below(16);
        ring.overwrite(slot, word, input.number());
        break;
      }
      default:
        ring.pop();
    }
  }
  for (int i = 0; i < 4; ++i) ring.pop();
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run({data, size});
  return 0;
}
