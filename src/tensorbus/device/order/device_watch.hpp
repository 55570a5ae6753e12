#pragma once

#include <functional>
#include <memory>

#include "tensorbus/device/order/timeline_pages.hpp"

namespace tensorbus::memory {

// The one thread of a process that watches its timelines. When a peer dies, it releases the streams
// that wait for the peer. It also polls streams, to release what was kept until they finish,
// because a GPU does not notify. It takes no lock that any thread holds while it calls the driver;
// so a driver that blocks cannot stop this thread from what the driver waits for. Started with the
// first timeline; sleeps while nothing is kept and no peer dies.
class DeviceWatch {
 public:
  // Watches these pages until they have ended and nothing of them is in use.
  static void add(std::shared_ptr<TimelinePages> pages);
  // Makes the thread look soon.
  static void wake() noexcept;
  // Calls `attempt`, which must not throw, from time to time until it returns true.
  static void retry(std::function<bool()> attempt);
};

}  // namespace tensorbus::memory
