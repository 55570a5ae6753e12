#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tensorbus/device/gpu_pin.hpp"
#include "tensorbus/memory/host/borrowed_segments.hpp"
#include "tensorbus/memory/ranges.hpp"

namespace tensorbus::memory {

// The blocks of one owner that are pinned here for GPUs. The owner is asked first, and takes no
// pages out of what it has granted until it is told that the block is pinned no longer: else a GPU
// would go on reading pages that are not the block's any more. Thread-safe.
class PinnedBlocks : public std::enable_shared_from_this<PinnedBlocks> {
 public:
  // A block is pinned whole, and has its pages to itself, from this size on.
  static std::size_t least_bytes() noexcept;
  // That nobody uses, and are kept for the next sample that lies there.
  static constexpr std::size_t kMostIdle = 32;
  static constexpr std::size_t kMostIdleBytes = std::size_t{1} << 30;
  // After the owner or the driver has said no, nothing is asked for: each question makes a sample
  // wait for its answer.
  static constexpr std::chrono::seconds kRefusedFor{1};

  struct Block {
    SegmentId segment = 0;
    std::uint64_t offset = 0;  // of any byte of it
    std::uint64_t generation = 0;
    auto operator<=>(const Block&) const = default;
  };
  struct Wanted {
    Block block;
    Range bytes;  // of the segment, that are to be pinned
    BorrowedSegments::Ref mapping;
  };

  // `tell`: how the owner hears that a part of a segment is pinned no longer.
  using Tell = std::function<void(SegmentId segment, Range part)>;
  void tell_by(Tell tell);

  // Who wants blocks pinned. After the last one has gone, none stays pinned but those in use.
  void subscribe();
  void unsubscribe() noexcept;

  enum class State {
    kPinned,
    kAsk,    // the caller is to ask the owner, and to come again when it has answered
    kAsked,  // the same, and it was asked
    kNot,    // the owner or the driver says no
    kHalf,   // a part of it is pinned with another block that is in use: a copy of it is not
  };
  struct Found {
    State state = State::kNot;
    std::shared_ptr<const void> use{};  // of one that is pinned: it stays so while this lives
  };
  Found find(const Wanted& wanted);
  // What is not to be pinned: kNot, and then it is in one whole, or has no byte that is, or kHalf.
  State leave(const Wanted& wanted);

  // The owner's answer; empty: no. Calls no driver.
  void answer(const Block& block, std::optional<Range> granted);
  // It answers no more, and nothing new will lie in its memory: none stays pinned but those in use.
  void owner_gone() noexcept;

 private:
  struct Pinned;
  using Ref = std::shared_ptr<Pinned>;
  struct Use;

  Found use_what_holds(const Wanted& wanted);
  void withdraw(const Block& block) noexcept;
  std::optional<State> ask(const Wanted& wanted, std::optional<Range>& granted);
  Found use(const Ref& pinned);
  Found pin(const Wanted& wanted, Range granted);
  // Those between the addresses that nobody uses go; false if one is in use.
  bool make_room(const std::byte* first, const std::byte* end, std::vector<Ref>& gone);
  void bound_idle(std::vector<Ref>& gone);
  void unpin(std::vector<Ref> gone) noexcept;
  void release(SegmentId segment, Range part) noexcept;
  bool keeps_idle() const noexcept { return subscribers_ != 0 && !owner_gone_; }
  void used_no_more(Ref pinned) noexcept;
  void drop_idle() noexcept;
  void drop_grants() noexcept;
  void refused() noexcept;

  Tell tell_;
  std::mutex mutex_;  // not held while anything is unpinned
  std::map<const std::byte*, Ref> by_address_;
  std::uint64_t turn_ = 0;
  std::atomic<std::size_t> subscribers_{0};  // relaxed: a count, changed under mutex_

  std::mutex answers_mutex_;  // held for moments only
  struct Asked {
    bool wanted = true;  // still
    bool answered = false;
    std::optional<Range> granted{};
  };
  std::map<Block, Asked> asked_;
  std::chrono::steady_clock::time_point ask_again_{};
  std::atomic<bool> owner_gone_{false};  // relaxed: changed under answers_mutex_
};

}  // namespace tensorbus::memory
