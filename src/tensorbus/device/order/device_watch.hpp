#pragma once

#include <memory>

#include "tensorbus/device/order/timeline_pages.hpp"

namespace tensorbus::device {

// The one thread of a process that watches its timelines. When a peer dies, it releases the streams
// that wait for the peer. It also polls the counters, because a GPU does not notify, and passes
// objects that were kept until a mark to DeferredReleaser. It never calls the driver, and takes no
// lock that a thread holds during a driver call. So it continues when the driver blocks, and can
// release the streams for which the driver waits. The first timeline starts the thread; it sleeps
// while nothing is kept and no peer dies.
class DeviceWatch {
 public:
  // Watches these pages until they have ended and are not in use.
  static void add(std::shared_ptr<TimelinePages> pages);
  // Wakes the thread to poll.
  static void wake() noexcept;
};

}  // namespace tensorbus::device
