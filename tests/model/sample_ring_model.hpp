#pragma once

// An explicit-state model of the protocol of one link: every interleaving of owner and borrower,
// and every death at every step, for small rings. Each transition below is one atomic access of the
// code, which its comment names. Private computation belongs to the access before it. The words of
// an entry are relaxed, so the model writes and reads them in any order. The model leaves out all
// other reordering of accesses (weak_memory/ tests it), and the bound on the iterations of pop().

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tensorbus::link::testing {

struct Sizes {
  int slots = 1;
  int depth = 1;
  int max_held = 1;
  int publishes = 4;
  int batch = 1;  // publish_many(): number of pushes between two drains of the return ring
  int returns() const { return static_cast<int>(std::bit_ceil(unsigned(depth + max_held))); }
};

// Mistakes that the model must find; otherwise it proves nothing.
enum class Mistake {
  kNone,
  kStateBeforeWords,    // push() stores the state first
  kTakeWithoutSwap,     // pop() stores taken(p) instead of swapping
  kOverwriteUntaken,    // the owner does not drop before it overwrites
  kTailBeforeToken,     // a release moves the tail first
  kReturnRingTooSmall,  // one slot fewer than leases, rounded down
  kHeldIsNotBounded,    // the borrower pops beyond max_held
  kBatchBeyondRoom,     // room is checked only before the first push of a batch
  kJumpTooFar,          // an overtaken reader skips an entry that is still there
};

enum class OwnerAt : std::uint8_t { kOldest, kDrop, kTail, kToken, kWords, kState, kOver };
enum class BorrowerAt : std::uint8_t { kLook, kCopy, kSwap };

inline constexpr int kMaxSlots = 4;
inline constexpr int kMaxReturns = 8;
inline constexpr std::uint8_t kNobody = 0xff;

using Positions = std::uint16_t;  // a set of positions
constexpr Positions only(int position) { return static_cast<Positions>(1U << position); }
constexpr std::uint8_t full(int position) { return static_cast<std::uint8_t>(2 * position + 1); }
constexpr std::uint8_t taken(int position) { return static_cast<std::uint8_t>(2 * position + 2); }
constexpr int position_of(int state) { return (state - 1) / 2; }

// A lease is identified by its position: one is issued for each push, and tokens never repeat.
struct State {
  // Private to the owner: its lease table. Private to the borrower: the held samples.
  Positions leases = 0;
  Positions held = 0;
  // History, for the invariants: positions won by pop(), positions won by drop(), returned leases.
  Positions got = 0;
  Positions dropped = 0;
  Positions back = 0;
  // Private to the borrower: held leases whose tokens are written to the return ring, but not yet
  // covered by its tail.
  Positions releasing = 0;
  // Shared: Slot::state, Slot::words (two of them), the return ring.
  std::array<std::uint8_t, kMaxSlots> state{};
  std::array<std::array<std::uint8_t, 2>, kMaxSlots> words{};
  std::array<std::uint8_t, kMaxReturns> tokens{};
  std::uint8_t tail = 0;
  // Private to the owner: OwnerLink and ReturnRingReader.
  OwnerAt owner = OwnerAt::kTail;
  std::uint8_t next = 0;
  std::uint8_t oldest = 0;
  std::uint8_t written = 0;  // which words of the entry are in the slot
  std::uint8_t tail_seen = 0;
  std::uint8_t drained = 0;
  std::uint8_t in_batch = 0;  // number of pushes since the last drain of the return ring
  std::uint8_t unused = 0;    // no padding
  // Private to the borrower: SampleRingReader and ReturnRingWriter.
  BorrowerAt borrower = BorrowerAt::kLook;
  std::uint8_t looking_at = 0;
  std::uint8_t copied = 0;  // which words are in the copy
  std::array<std::uint8_t, 2> copy{};
  std::uint8_t written_back = 0;  // number of tokens of `releasing`
  std::uint8_t returned_to = 0;
  bool owner_dead = false;
  bool borrower_dead = false;

  bool operator==(const State&) const = default;
};

struct Hash {
  std::size_t operator()(const State& state) const {
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof(State)});
  }
};
static_assert(std::has_unique_object_representations_v<State>, "it is hashed by its bytes");

class SampleRingModel {
 public:
  explicit SampleRingModel(Sizes sizes, Mistake mistake = Mistake::kNone)
      : sizes_(sizes), mistake_(mistake) {
    returns_ = mistake == Mistake::kReturnRingTooSmall ? sizes.returns() / 2 : sizes.returns();
  }

  // Visits every state that can be reached. Returns the first broken invariant, or "".
  std::string explore() {
    State start;
    for (auto& words : start.words) words = {kNobody, kNobody};
    enter(start);
    while (!todo_.empty() && violation_.empty()) {
      const State state = from_ = todo_.back();
      todo_.pop_back();
      const std::size_t before = successors_;
      if (!state.owner_dead) owner_step(state);
      if (!state.borrower_dead) borrower_steps(state);
      if (!state.owner_dead && !state.borrower_dead) deaths(state);
      if (successors_ == before) at_rest(state);
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }

 private:
  // --- The owner: calls Sender::push_to_all() with one OwnerLink repeatedly. ---

  void owner_step(State s) {
    const int slot = s.oldest % sizes_.slots;
    switch (s.owner) {
      case OwnerAt::kOldest:  // in_ring(): SampleRingWriter::is_taken(oldest_)
        if (s.state[slot] == full(s.oldest)) {
          s.owner = OwnerAt::kDrop;
          return enter(s);
        }
        ++s.oldest;
        return before_push(s);
      case OwnerAt::kDrop:  // drop_oldest(): the swap in SampleRingWriter::drop()
        if (s.state[slot] == full(s.oldest)) {
          s.state[slot] = taken(s.oldest);
          expect((s.got & only(s.oldest)) == 0, "a position that was popped is dropped");
          take_back(s, s.oldest);  // token_at(position): private
          s.dropped |= only(s.oldest);
        }
        ++s.oldest;
        return before_push(s);
      case OwnerAt::kTail:  // ReturnRingReader::drain(): return_tail
        s.tail_seen = s.tail;
        expect(s.tail_seen - s.drained <= returns_, "the return ring overflows");
        return after_drain(s);
      case OwnerAt::kToken:  // ReturnRingReader::drain(): each token
        take_back(s, s.tokens[s.drained++ % returns_]);
        return after_drain(s);
      case OwnerAt::kWords:  // SampleRingWriter::push(): the words, in any order
        for (int word = 0; word < 2; ++word) {
          if ((s.written >> word & 1) != 0) continue;
          State after = s;
          after.words[s.next % sizes_.slots][word] = s.next;
          after.written |= 1 << word;
          if (after.written == 3) {
            after.written = 0;
            if (mistake_ == Mistake::kStateBeforeWords) {
              ++after.next;
              after.owner = OwnerAt::kTail;
            } else {
              after.owner = OwnerAt::kState;
            }
          }
          enter(after);
        }
        return;
      case OwnerAt::kState:  // SampleRingWriter::push(): the state
        s.state[s.next % sizes_.slots] = full(s.next);
        if (mistake_ == Mistake::kStateBeforeWords) {
          s.owner = OwnerAt::kWords;
        } else {
          ++s.next;
          if (++s.in_batch < sizes_.batch) return before_push(s);
          s.in_batch = 0;
          s.owner = OwnerAt::kTail;  // drain_after_push()
        }
        return enter(s);
      case OwnerAt::kOver:
        return;
    }
  }

  void after_drain(State& s) {
    if (s.drained != s.tail_seen) {
      s.owner = OwnerAt::kToken;
      return enter(s);
    }
    before_push(s, true);
  }

  // drop_until_room() up to its next shared access; or LeaseTable::issue(), which is private.
  void before_push(State& s, bool has_drained = false) {
    if (s.next == sizes_.publishes) {     // all published: drains, detects a death
      if (s.borrower_dead) s.leases = 0;  // take_all_back()
      s.owner = s.borrower_dead ? OwnerAt::kOver : OwnerAt::kTail;
      return enter(s);
    }
    // in_ring(): every returned sample was popped before.
    s.oldest = static_cast<std::uint8_t>(std::max<int>(s.oldest, s.next - std::popcount(s.leases)));
    const bool ring_full = s.next - s.oldest >= sizes_.depth;
    const bool looks = mistake_ != Mistake::kBatchBeyondRoom || s.in_batch == 0;
    if (ring_full && looks && mistake_ != Mistake::kOverwriteUntaken) {
      s.owner = OwnerAt::kOldest;
    } else if (std::popcount(s.leases) == sizes_.depth + sizes_.max_held) {
      expect(!has_drained, "an honest borrower holds more than it may");
      s.owner = OwnerAt::kTail;
    } else {
      s.leases |= only(s.next);
      s.owner = mistake_ == Mistake::kStateBeforeWords ? OwnerAt::kState : OwnerAt::kWords;
    }
    enter(s);
  }

  void take_back(State& s, int lease) {
    expect(lease < sizes_.publishes && (s.leases & only(lease)) != 0,
           "a lease comes back that is not out");
    if (lease >= sizes_.publishes) return;
    s.leases &= static_cast<Positions>(~only(lease));
    s.back |= only(lease);
  }

  // --- The borrower: one thread in receive(), another thread that releases samples. ---

  void borrower_steps(const State& s) {
    pop_step(s);
    // Releases leases one by one, or several before the tail moves.
    if (s.releasing == 0 || mistake_ != Mistake::kTailBeforeToken)
      for (int lease = 0; lease < sizes_.publishes; ++lease)
        if ((s.held & ~s.releasing & only(lease)) != 0) start_release(s, lease);
    if (s.releasing != 0) finish_release(s);
  }

  void pop_step(State s) {
    const int slot = s.looking_at % sizes_.slots;
    switch (s.borrower) {
      case BorrowerAt::kLook: {  // SampleRingReader::pop(): the state
        const bool may_hold = std::popcount(s.held) < sizes_.max_held;
        if (!may_hold && mistake_ != Mistake::kHeldIsNotBounded) return;
        const int state = s.state[slot];
        if (state < full(s.looking_at)) return;
        if (state > taken(s.looking_at)) {
          s.looking_at = static_cast<std::uint8_t>(
              std::max(s.looking_at + 1, position_of(state) - sizes_.slots + 1) +
              (mistake_ == Mistake::kJumpTooFar ? 1 : 0));
        } else if (state == full(s.looking_at)) {
          s.borrower = BorrowerAt::kCopy;
        } else {
          ++s.looking_at;
        }
        return enter(s);
      }
      case BorrowerAt::kCopy:  // SampleRingReader::pop(): the words, in any order
        for (int word = 0; word < 2; ++word) {
          if ((s.copied >> word & 1) != 0) continue;
          State after = s;
          after.copy[word] = s.words[slot][word];
          after.copied |= 1 << word;
          if (after.copied == 3) after.borrower = BorrowerAt::kSwap;
          enter(after);
        }
        return;
      case BorrowerAt::kSwap:  // SampleRingReader::pop(): the swap
        if (s.state[slot] == full(s.looking_at) || mistake_ == Mistake::kTakeWithoutSwap) {
          s.state[slot] = taken(s.looking_at);
          expect(s.copy[0] == s.looking_at && s.copy[1] == s.looking_at,
                 "a torn entry is accepted");
          expect(((s.got | s.dropped) & only(s.looking_at)) == 0, "a position has two winners");
          s.got |= only(s.looking_at);
          s.held |= only(s.looking_at);  // held_: counted right after the swap
        }
        ++s.looking_at;
        s.copied = 0;
        s.copy = {};
        s.borrower = BorrowerAt::kLook;
        return enter(s);
    }
  }

  void start_release(State s, int lease) {  // ReturnRingWriter::push(): the token
    if (mistake_ == Mistake::kTailBeforeToken)
      s.tail = static_cast<std::uint8_t>(s.returned_to + 1);
    else
      s.tokens[(s.returned_to + s.written_back) % returns_] = static_cast<std::uint8_t>(lease);
    s.releasing |= only(lease);
    ++s.written_back;
    enter(s);
  }

  void finish_release(State s) {  // ReturnRingWriter::push(): return_tail; then held_
    if (mistake_ == Mistake::kTailBeforeToken)
      s.tokens[s.returned_to % returns_] = static_cast<std::uint8_t>(std::countr_zero(s.releasing));
    s.tail = s.returned_to = static_cast<std::uint8_t>(s.returned_to + s.written_back);
    s.held &= static_cast<Positions>(~s.releasing);
    s.releasing = 0;
    s.written_back = 0;
    enter(s);
  }

  // --- Owner and borrower. ---

  void deaths(State s) {
    s.owner_dead = true;
    enter(s);
    s.owner_dead = false;
    s.borrower_dead = true;
    enter(s);
  }

  void enter(const State& s) {
    if (s == from_) return;  // a side has checked, and found nothing
    ++successors_;
    if (!seen_.insert(s).second) return;
    check_invariants(s);
    todo_.push_back(s);
  }

  void check_invariants(const State& s) {
    int in_ring = 0;
    Positions ring = 0;
    for (int slot = 0; slot < sizes_.slots; ++slot) {
      if (s.state[slot] % 2 == 0) continue;
      ++in_ring;
      ring |= only(position_of(s.state[slot]));
    }
    expect(in_ring <= sizes_.depth, "more in the ring than its depth");
    expect(std::popcount(s.leases) <= sizes_.depth + sizes_.max_held, "more leases than allowed");
    expect(std::popcount(s.held) <= sizes_.max_held, "more held than allowed");
    expect((s.got & s.dropped) == 0, "a position has two winners");
    for (int p = 0; p < s.looking_at; ++p)
      expect(((s.got | s.dropped) & only(p)) != 0, "the borrower passes what nobody dropped");
    // Each sample that is in the ring or held has a lease: its memory is not reused.
    const Positions safe = s.borrower_dead && s.owner == OwnerAt::kOver ? 0 : ring | s.held;
    expect((safe & ~s.leases) == 0, "memory in use is not leased");
    expect((s.back & (ring | s.held)) == 0, "a lease came back while somebody had it");
  }

  // Checks a state in which nothing can happen any more.
  void at_rest(const State& s) {
    ++ends_;
    Positions published = 0;
    for (int p = 0; p < s.next; ++p) published |= only(p);
    if (s.borrower_dead) return expect(s.leases == 0, "a dead borrower keeps leases");
    expect(s.held == 0, "a lease cannot be returned");
    expect((s.got | s.dropped) == published, "a sample is lost that was not dropped");
    if (s.owner_dead) return;
    expect(s.next == sizes_.publishes, "the owner is stuck");
    expect(s.leases == 0 && s.back == published, "a lease is lost");
  }

  void expect(bool holds, const char* what) {
    if (!holds && violation_.empty()) violation_ = what;
  }

  Sizes sizes_;
  Mistake mistake_;
  int returns_ = 0;
  std::unordered_set<State, Hash> seen_;
  std::vector<State> todo_;
  State from_;  // the state whose successors are being entered
  std::size_t successors_ = 0;
  std::size_t ends_ = 0;
  std::string violation_;
};

}  // namespace tensorbus::link::testing
