#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// What a participant keeps for whoever has its handle. Thread-safe.
class Shares {
 public:
  using Clock = std::chrono::steady_clock;

  // What is shared: the entry says where its descriptor is.
  struct Offer {
    link::Entry entry;
    link::PublishedRef issued;
    memory::Grant most_granted = memory::Grant::kRead;
  };
  struct Name {
    std::uint64_t number = 0;
    std::uint64_t key = 0;  // random: a number that was guessed, or is another's, does not fit
  };

  struct Added {
    Name name;
    bool ends_first =
        false;  // before all others: whoever waits for end_overdue() has to look again
  };

  // `uses`: so many may attach, then it is over; 0: any number. `until`: then it is over anyway.
  Added add(Offer offer, std::uint32_t uses, Clock::time_point until);
  // Throws Error(kClosed) if it is over, Error(kInvalidArgument) if there never was one,
  // Error(kPermission) if it is not shared to be written.
  Offer find(const Name& name, memory::Grant grant) const;
  // Somebody gets it: before they know. The last use ends it for others, and is followed by one of
  // the two.
  void count_use(std::uint64_t number) noexcept;
  void end_if_spent(std::uint64_t number) noexcept;
  void undo_use(std::uint64_t number) noexcept;  // they did not get it
  void close(std::uint64_t number) noexcept;
  bool open(std::uint64_t number) const;

  // Ends what is due, and looks at nothing else; returns when to look again.
  std::optional<Clock::time_point> end_overdue() noexcept;

 private:
  struct Share {
    Offer offer;
    std::uint64_t key = 0;
    std::optional<std::uint32_t> uses_left;  // empty: any number
    bool open() const { return uses_left != 0U && until > Clock::now(); }
    Clock::time_point until;
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
