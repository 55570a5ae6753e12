#pragma once

#include <functional>
#include <memory>

#include "tensorbus/device/order/timeline_pages.hpp"

namespace tensorbus::memory {

// The one thread of a process that looks after its timelines: it hears when a peer dies, and lets
// the streams go on that wait for it; and it looks whether streams have passed, for what is kept
// until then, since a GPU tells nobody. It takes no lock that anybody holds while calling the
// driver, so a driver that blocks cannot keep it from what the driver waits for. Started with the
// first timeline; it sleeps while nothing is kept and nobody dies.
class DeviceWatch {
 public:
  // Until they have ended and are done with.
  static void add(std::shared_ptr<TimelinePages> pages);
  // Something is to be looked at soon.
  static void wake() noexcept;
  // Calls it now and then until it returns true. For what could not be done just now; it must not
  // throw.
  static void retry(std::function<bool()> attempt);
};

}  // namespace tensorbus::memory
