#pragma once

// How long after the kernel tells of a death the victim's leases are back with their owner.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actor.hpp"
#include "report.hpp"
#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "traffic.hpp"
#include "victim.hpp"

namespace tensorbus::kills {

// Until all leases were back; from when the kernel told of the death, and from the signal.
struct LeaseTimes {
  std::vector<std::chrono::nanoseconds> since_death, since_kill;
};

class LeaseProbe {
 public:
  LeaseProbe(const std::string& domain, Tally& tally);

  // Has a victim hold samples of ours, kills it after a pause, and watches our books without
  // touching them. `leaves` says what child lives on. Returns when victim and child are gone.
  void kill_one(Activity& activity, Role leaves, std::chrono::microseconds pause,
                LeaseTimes& times);
  void add_to(Report& report) const;

 private:
  const std::string domain_;
  Tally& tally_;
  bus::ParticipantRef participant_;
  bus::Publisher publisher_;
};

}  // namespace tensorbus::kills
