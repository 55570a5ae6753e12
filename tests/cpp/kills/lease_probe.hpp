#pragma once

// How long after the kernel tells of a death the victim's leases are back with their owner.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "actor.hpp"
#include "report.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "traffic.hpp"
#include "victim.hpp"

namespace tensorbus::kills {

class LeaseProbe {
 public:
  LeaseProbe(const std::string& domain, Tally& tally);

  // Has a victim hold samples of ours, kills it, and watches our books without touching them.
  // `leaves` says what child lives on. Returns when the victim and its child are gone.
  void kill_one(Activity& activity, Random& random, Role leaves,
                std::vector<std::chrono::nanoseconds>& times);
  void add_to(Report& report) const;

 private:
  const std::string domain_;
  Tally& tally_;
  Participant participant_;
  Publisher publisher_;
};

}  // namespace tensorbus::kills
