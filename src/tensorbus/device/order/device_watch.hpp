#pragma once

#include <memory>

#include "tensorbus/device/order/timeline_pages.hpp"

namespace tensorbus::device {

// The one thread of a process that watches its timelines. When a peer dies, it releases the streams
// that wait for the peer. It also polls the counters, because a GPU does not notify, and gives
// DeferredReleaser what was kept until a mark. It never calls the driver, and takes no lock that a
// thread holds while calling it: so a blocked driver cannot stop this thread from doing what the
// driver waits for. Started with the first timeline; sleeps while nothing is kept and no peer dies.
class DeviceWatch {
 public:
  // Watches these pages until they have ended and are not in use.
  static void add(std::shared_ptr<TimelinePages> pages);
  // Makes the thread poll soon.
  static void wake() noexcept;
};

}  // namespace tensorbus::device
