#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/device/gpu_pin.hpp"
#include "tensorbus/memory/host/borrowed_segments.hpp"
#include "tensorbus/memory/ranges.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// The blocks of one owner that are pinned in this process for GPUs. The owner must grant each pin
// first. It removes no pages of a granted part until it is notified that the part is no longer
// pinned: otherwise a GPU would read pages that no longer belong to the block. Thread-safe.
class PinnedBlocks : public std::enable_shared_from_this<PinnedBlocks> {
 public:
  // The minimum size of blocks that are pinned whole. No other block lies in the pages of such a
  // block.
  static std::size_t least_bytes() noexcept;
  // Limits for unused blocks that stay pinned for the next sample at the same place.
  static constexpr std::size_t kMaxIdle = 32;
  static constexpr std::size_t kMaxIdleBytes = std::size_t{1} << 30;
  // After a refusal by the owner or the driver, or if the owner does not reply, no request is sent
  // for this long, because each request makes a sample wait for the reply.
  static constexpr std::chrono::seconds kRefusedFor{1};

  struct Block {
    memory::SegmentId segment = 0;
    std::uint64_t offset = 0;  // of any byte of the block
    std::uint64_t generation = 0;
    auto operator<=>(const Block&) const = default;
  };
  struct Wanted {
    Block block;
    memory::Range bytes;  // to be pinned; offsets in the segment
    memory::BorrowedSegments::Ref mapping;
  };

  // `tell` notifies the owner that a part of a segment is no longer pinned.
  using Report = std::function<void(memory::SegmentId segment, memory::Range part)>;
  void report_by(Report report);

  // Count the subscribers and the users of queues with the option `pin`. Without any, only blocks
  // in use stay pinned.
  void subscribe();
  void unsubscribe() noexcept;

  enum class State {
    kPinned,
    kAsk,    // request a grant, and call again after the reply
    kAsked,  // a grant was requested; call again after the reply
    kNot,    // the owner or the driver refuses
    kHalf,   // a part is pinned with another block in use: copy it in host memory
  };
  struct Found {
    State state = State::kNot;
    std::shared_ptr<const void> use{};  // the block stays pinned while this lives
  };
  Found find(const Wanted& wanted);
  // For bytes that are not to be pinned. Unpins unused parts that contain only some of them. kNot:
  // the bytes lie in one pinned part, or in none. kHalf: as above.
  State leave(const Wanted& wanted);

  // Calls `tell` once, when no reply about the block is missing any more: in the thread that
  // handles the reply, or at once. It must not throw.
  void on_answer(const Block& block, std::function<void()> tell);
  // Withdraws the request for a block: no sample waits for it any more. If it was granted, the
  // owner is notified that it is not pinned.
  void withdraw(const Block& block) noexcept TB_EXCLUDES(answers_mutex_);
  // After kAsk, if the request could not be sent.
  void not_asked(const Block& block) noexcept TB_EXCLUDES(answers_mutex_);
  // As withdraw(), after a wait in which the owner did not reply. The next samples do not wait.
  void give_up(const Block& block) noexcept TB_EXCLUDES(answers_mutex_);

  // Called with the owner's reply; empty: refused. Does not call the driver.
  void answer(const Block& block, std::optional<memory::Range> granted);
  // Called when the owner is gone: only blocks in use stay pinned.
  void owner_gone() noexcept;

 private:
  struct Pinned;
  using Ref = std::shared_ptr<Pinned>;
  struct Use;

  Found use_what_holds(const Wanted& wanted);
  using Tell = std::list<std::function<void()>>;
  Tell enter_answer(const Block& block, std::optional<memory::Range> granted)
      TB_EXCLUDES(answers_mutex_);
  std::optional<State> ask(const Wanted& wanted, std::optional<memory::Range>& granted);
  Found use(const Ref& pinned) TB_REQUIRES(mutex_);
  Found pin(const Wanted& wanted, memory::Range granted);
  // Removes the unused blocks between the addresses; returns false if one is in use.
  bool make_room(const std::byte* first, const std::byte* end, std::vector<Ref>& gone)
      TB_REQUIRES(mutex_);
  void bound_idle(std::vector<Ref>& gone) TB_REQUIRES(mutex_);
  void unpin(std::vector<Ref> gone) noexcept TB_EXCLUDES(mutex_);
  void release(memory::SegmentId segment, memory::Range part) noexcept TB_EXCLUDES(mutex_);
  bool keeps_idle() const noexcept { return subscribers_ != 0 && !owner_gone_; }
  void used_no_more(Ref pinned) noexcept TB_EXCLUDES(mutex_);
  void drop_idle() noexcept TB_EXCLUDES(mutex_);
  void drop_grants() noexcept TB_EXCLUDES(answers_mutex_);
  void refused() noexcept TB_EXCLUDES(answers_mutex_);

  Report report_;
  platform::Mutex mutex_;  // not held while blocks are unpinned
  std::map<const std::byte*, Ref> by_address_ TB_GUARDED_BY(mutex_);
  std::uint64_t turn_ TB_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> subscribers_{0};  // relaxed: a count, changed under mutex_

  platform::Mutex answers_mutex_;  // held only briefly
  struct Asked {
    bool wanted = true;  // still wanted
    bool answered = false;
    std::optional<memory::Range> granted{};
    Tell tell{};  // see on_answer()
  };
  std::map<Block, Asked> asked_ TB_GUARDED_BY(answers_mutex_);
  std::chrono::steady_clock::time_point ask_again_ TB_GUARDED_BY(answers_mutex_){};
  std::atomic<bool> owner_gone_{false};  // relaxed: changed under answers_mutex_
};

}  // namespace tensorbus::device
