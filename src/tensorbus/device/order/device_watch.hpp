#pragma once

#include <memory>

#include "tensorbus/device/order/timeline_pages.hpp"

namespace tensorbus::memory {

// The one thread of a process that watches its timelines. When a peer dies, it releases the streams
// that wait for the peer. It also looks at the counters, and hands what was kept until a mark to
// DeferredReleaser, because a GPU does not notify. It never calls the driver, and takes no lock
// that any thread holds while it does; so a driver that blocks cannot stop this thread from what
// the driver waits for. Started with the first timeline; sleeps while nothing is kept and no peer
// dies.
class DeviceWatch {
 public:
  // Watches these pages until they have ended and nothing of them is in use.
  static void add(std::shared_ptr<TimelinePages> pages);
  // Makes the thread look soon.
  static void wake() noexcept;
};

}  // namespace tensorbus::memory
