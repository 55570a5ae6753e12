#include "tensorbus/device/transfer/pinned_blocks.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/faults/private_pages.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::device {

struct PinnedBlocks::Pinned {
  Pinned(memory::BorrowedSegments::Ref in, memory::SegmentId number, memory::Range part)
      : mapping(std::move(in)),
        segment(number),
        range(part),
        kept({first(), part.bytes()}),
        pin(first(), part.bytes()) {}
  const std::byte* first() const noexcept { return mapping->data() + range.begin; }
  const std::byte* end() const noexcept { return mapping->data() + range.end; }

  const memory::BorrowedSegments::Ref mapping;
  const memory::SegmentId segment;
  const memory::Range range;
  const platform::KeptShared kept;
  const HostPin pin;
  std::size_t users = 0;        // guarded by mutex_, like last_used
  std::uint64_t last_used = 0;  // a turn
};

struct PinnedBlocks::Use {
  std::shared_ptr<PinnedBlocks> blocks;
  Ref pinned;
  ~Use() { blocks->used_no_more(std::move(pinned)); }
};

std::size_t PinnedBlocks::least_bytes() noexcept { return 16 * platform::page_bytes(); }

void PinnedBlocks::report_by(Report report) { report_ = std::move(report); }

void PinnedBlocks::subscribe() {
  const platform::MutexLock lock(mutex_);
  ++subscribers_;
}

void PinnedBlocks::unsubscribe() noexcept {
  {
    const platform::MutexLock lock(mutex_);
    if (--subscribers_ != 0) return;
  }
  drop_grants();
  drop_idle();
}

PinnedBlocks::Found PinnedBlocks::find(const Wanted& wanted) {
  if (Found found = use_what_holds(wanted); found.use) {
    withdraw(wanted.block);
    return found;
  }
  std::optional<memory::Range> granted;
  const auto state = ask(wanted, granted);
  if (!state) return pin(wanted, *granted);
  return {*state == State::kNot ? leave(wanted) : *state};
}

PinnedBlocks::Found PinnedBlocks::use_what_holds(const Wanted& wanted) {
  const std::byte* const first = wanted.mapping->data() + wanted.bytes.begin;
  const platform::MutexLock lock(mutex_);
  const auto after = by_address_.upper_bound(first);
  if (after == by_address_.begin()) return {};
  const Ref& pinned = std::prev(after)->second;
  return first + wanted.bytes.bytes() <= pinned->end() ? use(pinned) : Found();
}

PinnedBlocks::State PinnedBlocks::leave(const Wanted& wanted) {
  const std::byte* const first = wanted.mapping->data() + wanted.bytes.begin;
  const std::byte* const end = first + wanted.bytes.bytes();
  std::vector<Ref> gone;
  bool has_room = true;
  {
    const platform::MutexLock lock(mutex_);
    const auto after = by_address_.upper_bound(first);
    const bool in_one = after != by_address_.begin() && end <= std::prev(after)->second->end();
    if (!in_one) has_room = make_room(first, end, gone);
  }
  unpin(std::move(gone));
  return has_room ? State::kNot : State::kHalf;
}

// Returns nothing if the owner has granted the block; `granted` is then set.
std::optional<PinnedBlocks::State> PinnedBlocks::ask(const Wanted& wanted,
                                                     std::optional<memory::Range>& granted) {
  const platform::MutexLock lock(answers_mutex_);
  const auto known = asked_.find(wanted.block);
  const bool is_awaited = known != asked_.end() && known->second.wanted;
  if (!is_awaited && std::chrono::steady_clock::now() < ask_again_) return State::kNot;
  const auto [found, fresh] = asked_.try_emplace(wanted.block);
  Asked& asked = found->second;
  asked.wanted = true;
  if (!asked.answered && !owner_gone_) return fresh ? State::kAsk : State::kAsked;
  granted = asked.granted;
  asked_.erase(found);
  if (!granted) return State::kNot;
  return std::nullopt;
}

void PinnedBlocks::on_answer(const Block& block, std::function<void()> tell) {
  {
    const platform::MutexLock lock(answers_mutex_);
    const auto asked = asked_.find(block);
    if (asked != asked_.end() && !asked->second.answered && !owner_gone_)
      return asked->second.tell.push_back(std::move(tell));
  }
  tell();
}

void PinnedBlocks::give_up(const Block& block) noexcept {
  withdraw(block);
  refused();
}

void PinnedBlocks::not_asked(const Block& block) noexcept {
  Tell waiting;
  {
    const platform::MutexLock lock(answers_mutex_);
    const auto asked = asked_.find(block);
    if (asked == asked_.end()) return;
    waiting.swap(asked->second.tell);
    asked_.erase(asked);
  }
  for (const auto& tell : waiting) tell();  // they ask themselves
}

void PinnedBlocks::withdraw(const Block& block) noexcept {
  const platform::MutexLock lock(answers_mutex_);
  const auto asked = asked_.find(block);
  if (asked == asked_.end()) return;
  asked->second.wanted = false;
  if (!asked->second.answered) return;
  if (asked->second.granted) release(block.segment, *asked->second.granted);
  asked_.erase(asked);
}

PinnedBlocks::Found PinnedBlocks::use(const Ref& pinned) {
  pinned->last_used = ++turn_;
  auto held = std::make_shared<Use>(Use{shared_from_this(), nullptr});
  ++pinned->users;
  held->pinned = pinned;
  return {State::kPinned, std::move(held)};
}

PinnedBlocks::Found PinnedBlocks::pin(const Wanted& wanted, memory::Range granted) {
  const std::size_t page = platform::page_bytes();
  const bool makes_sense = granted.begin % page == 0 && granted.end % page == 0 &&
                           granted.begin <= wanted.bytes.begin && granted.end >= wanted.bytes.end &&
                           granted.end <= wanted.mapping->size();
  Found found;
  std::vector<Ref> gone;
  if (makes_sense) {
    const platform::MutexLock lock(mutex_);
    const std::byte* const base = wanted.mapping->data();
    if (!make_room(base + granted.begin, base + granted.end, gone)) found.state = State::kHalf;
  }
  unpin(std::exchange(gone, {}));
  if (makes_sense && found.state != State::kHalf) try {
      const platform::MutexLock lock(mutex_);
      const auto pinned = std::make_shared<Pinned>(wanted.mapping, wanted.block.segment, granted);
      by_address_.emplace(pinned->first(), pinned);
      found = use(pinned);
      bound_idle(gone);
    } catch (const Error&) {  // RLIMIT_MEMLOCK is reached, or the pages are pinned already
      refused();
    }
  unpin(std::move(gone));
  if (found.state != State::kPinned) report_(wanted.block.segment, granted);
  return found;
}

bool PinnedBlocks::make_room(const std::byte* first, const std::byte* end, std::vector<Ref>& gone) {
  const auto overlaps = [&](const auto& item) {
    return item.second->first() < end && first < item.second->end();
  };
  for (const auto& item : by_address_)
    if (overlaps(item) && item.second->users != 0) return false;
  for (const auto& item : by_address_)
    if (overlaps(item)) gone.push_back(item.second);
  std::erase_if(by_address_, overlaps);
  return true;
}

// Moves idle blocks above the limits to `gone`, the least recently used ones first.
void PinnedBlocks::bound_idle(std::vector<Ref>& gone) {
  std::vector<Ref> idle;
  std::size_t bytes = 0;
  for (const auto& [address, pinned] : by_address_) {
    if (pinned->users != 0) continue;
    idle.push_back(pinned);
    bytes += pinned->range.bytes();
  }
  std::ranges::sort(idle, {}, [](const Ref& pinned) { return pinned->last_used; });
  std::size_t left = idle.size();
  for (const Ref& pinned : idle) {
    if (keeps_idle() && left <= kMaxIdle && bytes <= kMaxIdleBytes) return;
    by_address_.erase(pinned->first());
    --left;
    bytes -= pinned->range.bytes();
    gone.push_back(pinned);
  }
}

void PinnedBlocks::unpin(std::vector<Ref> gone) noexcept {
  for (Ref& pinned : gone) {
    const memory::SegmentId segment = pinned->segment;
    const memory::Range range = pinned->range;
    pinned.reset();  // unpin before release
    release(segment, range);
  }
}

void PinnedBlocks::release(memory::SegmentId segment, memory::Range part) noexcept {
  try {
    report_(segment, part);
  } catch (const std::exception&) {  // the owner then keeps the pages until the connection ends
  }
}

void PinnedBlocks::used_no_more(Ref pinned) noexcept {
  if (!pinned) return;
  {
    const platform::MutexLock lock(mutex_);
    if (--pinned->users != 0 || keeps_idle()) return;
  }
  pinned.reset();
  drop_idle();
}

void PinnedBlocks::drop_idle() noexcept {
  std::vector<Ref> gone;
  try {
    const platform::MutexLock lock(mutex_);
    bound_idle(gone);
  } catch (const std::bad_alloc&) {  // they stay pinned until the connection ends
  }
  unpin(std::move(gone));
}

// Releases parts that were granted and never pinned.
void PinnedBlocks::drop_grants() noexcept {
  const platform::MutexLock lock(answers_mutex_);
  for (const auto& [block, asked] : asked_)
    if (asked.granted) release(block.segment, *asked.granted);
  std::erase_if(asked_, [](const auto& item) { return item.second.answered; });
}

void PinnedBlocks::answer(const Block& block, std::optional<memory::Range> granted) {
  for (const auto& tell : enter_answer(block, granted)) tell();
}

PinnedBlocks::Tell PinnedBlocks::enter_answer(const Block& block,
                                              std::optional<memory::Range> granted) {
  const platform::MutexLock lock(answers_mutex_);
  const auto found = asked_.find(block);
  if (found == asked_.end() || found->second.answered)
    throw Error(Code::kProtocol, "PIN: a reply without a request");
  Asked& asked = found->second;
  asked.answered = true;
  asked.granted = granted;
  Tell tell = std::move(asked.tell);
  if (!granted) ask_again_ = std::chrono::steady_clock::now() + kRefusedFor;
  if (subscribers_ != 0 && asked.wanted) return tell;
  if (granted) release(block.segment, *granted);
  asked_.erase(found);
  return tell;
}

void PinnedBlocks::refused() noexcept {
  const platform::MutexLock lock(answers_mutex_);
  ask_again_ = std::chrono::steady_clock::now() + kRefusedFor;
}

void PinnedBlocks::owner_gone() noexcept {
  Tell all;
  {
    const platform::MutexLock lock(answers_mutex_);
    owner_gone_ = true;
    for (auto& [block, asked] : asked_) all.splice(all.end(), asked.tell);
  }
  for (const auto& tell : all) tell();
  drop_idle();
}

}  // namespace tensorbus::device
