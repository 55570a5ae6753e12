#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tensorbus/values/inspected.hpp>
#include <utility>
#include <vector>

#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The shares that a participant keeps for processes with their handles. Thread-safe.
class Shares {
 public:
  using Clock = std::chrono::steady_clock;

  // The shared sample. `entry` refers to its descriptor.
  struct Offer {
    link::Entry entry;
    link::PublishedRef issued;
    memory::Grant max_grant = memory::Grant::kRead;
  };
  // A share that another participant keeps, too.
  class Elsewhere {
   public:
    Elsewhere() = default;
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;
    virtual ~Elsewhere() = default;  // drops it there, unless leave() was called
    virtual void leave() noexcept = 0;
    // Returns true if the participant's socket has all messages that it needs to keep the share, or
    // if the participant is gone.
    virtual bool has_it() const = 0;
  };
  struct Name {
    std::uint64_t number = 0;
    std::uint64_t key = 0;  // random: detects numbers that were guessed or are out of date
  };

  struct Added {
    Name name;
    bool ends_first = false;  // ends before all other shares: call end_overdue() again
  };

  // This bit is set in the numbers under which other participants' shares are kept here.
  static constexpr std::uint64_t kKept = std::uint64_t{1} << 63;

  // `carrier`: the channel through which the handle is sent; 0: unknown. `uses`: the number of
  // attaches after which the share ends; 0: no limit. `until`: the time at which it ends in any
  // case.
  Added add(Offer offer, std::uint32_t uses, Clock::time_point until, std::uint64_t carrier = 0);
  // Keeps another participant's share, for one use, unless a share of this name exists.
  void keep(const Name& name, Offer offer, std::uint64_t carrier);
  // Ends a share that is kept here.
  void drop(const Name& name) noexcept;
  // Records that another participant keeps this share, too. That participant keeps it until
  // `elsewhere` is destroyed: when the share ends here.
  void kept_by(std::uint64_t number, std::shared_ptr<Elsewhere> elsewhere) noexcept;
  // Called when this participant ends. Afterwards, other participants keep their copies of shares
  // that end here.
  void leave_to_keepers() noexcept;
  // Ends all shares that were sent through this carrier.
  void close_carried_by(std::uint64_t carrier) noexcept;
  // Returns the carriers of the shares that have been open for at least this time.
  std::set<std::uint64_t> carriers(std::chrono::nanoseconds open_for) const;
  // Returns the carriers (0: unknown) of the open shares that would be lost if this participant
  // ended now, because the participant that should keep them, too, does not read its socket.
  std::set<std::uint64_t> unkept() const;
  // Throws Error(kClosed) if the share has ended, Error(kInvalidArgument) if it never existed,
  // Error(kPermission) if it is not shared for writing.
  Offer find(const Name& name, memory::Grant grant) const;
  // Counts one use, before the attaching process is notified. The last use closes the share for
  // other processes; then either end_if_spent() or undo_use() must follow.
  void count_use(std::uint64_t number) noexcept;
  void end_if_spent(std::uint64_t number) noexcept;
  void undo_use(std::uint64_t number) noexcept;  // the share was not delivered
  void close(std::uint64_t number) noexcept;
  bool open(std::uint64_t number) const;
  // Returns the open shares of this participant.
  std::vector<ShareReport> report() const;

  // Ends only the shares that are due. Returns the time at which to call it again; empty: never.
  std::optional<Clock::time_point> end_overdue() noexcept;

 private:
  struct Share {
    Offer offer;
    std::uint64_t key = 0;
    std::optional<std::uint32_t> uses_left;  // empty: any number
    bool open() const { return uses_left != 0U && until > Clock::now(); }
    Clock::time_point until;
    std::uint64_t carrier = 0;
    Clock::time_point since = Clock::now();
    std::shared_ptr<Elsewhere> elsewhere{};
  };
  using Table = std::map<std::uint64_t, Share>;

  // The returned node must be destroyed without the mutex held.
  Table::node_type take_out(Table::iterator share) noexcept TB_REQUIRES(mutex_);

  mutable platform::Mutex mutex_;
  Table shares_ TB_GUARDED_BY(mutex_);
  // The ends of shares that have a time limit.
  std::set<std::pair<Clock::time_point, std::uint64_t>> ends_ TB_GUARDED_BY(mutex_);
  std::uint64_t next_ TB_GUARDED_BY(mutex_) = 1;
};

}  // namespace tensorbus::bus
