#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tensorbus/inspected.hpp>
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

  // What is shared; the entry says where its descriptor lies.
  struct Offer {
    link::Entry entry;
    link::PublishedRef issued;
    memory::Grant most_granted = memory::Grant::kRead;
  };
  // A share that another participant keeps, too.
  class Elsewhere {
   public:
    Elsewhere() = default;
    Elsewhere(const Elsewhere&) = delete;
    Elsewhere& operator=(const Elsewhere&) = delete;
    virtual ~Elsewhere() = default;  // drops it there, unless it was left
    virtual void leave() noexcept = 0;
    // Returns true if its socket has all that it needs to keep the share, or if it is gone.
    virtual bool has_it() const = 0;
  };
  struct Name {
    std::uint64_t number = 0;
    std::uint64_t key = 0;  // random: a guessed number, or another share's, does not match
  };

  struct Added {
    Name name;
    bool ends_first = false;  // before all others: call end_overdue() again
  };

  // The bit of the numbers under which other participants' shares are kept here.
  static constexpr std::uint64_t kKept = std::uint64_t{1} << 63;

  // `carrier`: what the handle is sent through; 0: not known. `uses`: the share ends after so many
  // attach; 0: any number. `until`: it ends then in any case.
  Added add(Offer offer, std::uint32_t uses, Clock::time_point until, std::uint64_t carrier = 0);
  // Keeps another participant's share, for one use, unless there is one of this name.
  void keep(const Name& name, Offer offer, std::uint64_t carrier);
  // Ends a share that is kept here.
  void drop(const Name& name) noexcept;
  // Another participant keeps a share of this one, too, while `elsewhere` lives: to the end of the
  // share here.
  void kept_by(std::uint64_t number, std::shared_ptr<Elsewhere> elsewhere) noexcept;
  // From now on others go on keeping what ends here: this participant ends.
  void leave_to_keepers() noexcept;
  // Ends all shares that were sent through this.
  void close_carried_by(std::uint64_t carrier) noexcept;
  // Returns the carriers of the shares that are open for so long.
  std::set<std::uint64_t> carriers(std::chrono::nanoseconds open_for) const;
  // Returns the carriers (0: not known) of the open shares that nobody would have if this
  // participant ended now, because the other that is to keep them, too, does not read its socket.
  std::set<std::uint64_t> unkept() const;
  // Throws Error(kClosed) if the share has ended, Error(kInvalidArgument) if it never existed,
  // Error(kPermission) if it is not shared for writing.
  Offer find(const Name& name, memory::Grant grant) const;
  // Counts one use, before the process that attaches knows. The last use closes the share for
  // others; then either end_if_spent() or undo_use() must follow.
  void count_use(std::uint64_t number) noexcept;
  void end_if_spent(std::uint64_t number) noexcept;
  void undo_use(std::uint64_t number) noexcept;  // it was not delivered
  void close(std::uint64_t number) noexcept;
  bool open(std::uint64_t number) const;
  // Returns the open shares of this participant.
  std::vector<ShareReport> report() const;

  // Ends the shares that are due, and looks at no other; returns when to call it again.
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

  // What is taken out is to be destroyed without the mutex.
  Table::node_type take_out(Table::iterator share) noexcept TB_REQUIRES(mutex_);

  mutable platform::Mutex mutex_;
  Table shares_ TB_GUARDED_BY(mutex_);
  // Of those that end by themselves.
  std::set<std::pair<Clock::time_point, std::uint64_t>> ends_ TB_GUARDED_BY(mutex_);
  std::uint64_t next_ TB_GUARDED_BY(mutex_) = 1;
};

}  // namespace tensorbus::bus
