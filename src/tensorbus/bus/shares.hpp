#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "tensorbus/link/issued_sample.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/memory/grant.hpp"

namespace tensorbus::bus {

// What a participant keeps for whoever has its handle. Thread-safe.
class Shares {
 public:
  using Clock = std::chrono::steady_clock;

  // What is shared: the entry says where its descriptor is.
  struct Offer {
    link::Entry entry;
    link::IssuedRef issued;
    memory::Grant most_granted = memory::Grant::kRead;
  };
  struct Name {
    std::uint64_t number = 0;
    std::uint64_t key = 0;  // random: a number that was guessed, or is another's, does not fit
  };

  // `uses`: so many may attach, then it is over; 0: any number. `until`: then it is over anyway.
  Name add(Offer offer, std::uint32_t uses, Clock::time_point until);
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

  // Ends what is due; returns when to look again.
  std::optional<Clock::time_point> end_overdue() noexcept;

 private:
  struct Share {
    Offer offer;
    std::uint64_t key = 0;
    std::optional<std::uint32_t> uses_left;  // empty: any number
    bool open() const { return uses_left != 0U && until > Clock::now(); }
    Clock::time_point until;
  };

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Share> shares_;
  std::uint64_t next_ = 1;
};

}  // namespace tensorbus::bus
