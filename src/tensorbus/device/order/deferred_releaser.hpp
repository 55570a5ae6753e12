#pragma once

#include <functional>
#include <list>
#include <memory>

namespace tensorbus::device {

// Releases objects that streams no longer use, in one thread of the process. The thread holds no
// lock of Tensorbus during a release, because a release may wait: the driver unpins and unmaps
// memory when a GPU is idle, and keepers of other allocators' memory run foreign destructors.
class DeferredReleaser {
 public:
  using Kept = std::list<std::shared_ptr<const void>>;  // a list: let_go() allocates nothing

  // Called before anything is kept. Throws Error(kSystem) if the thread cannot be started.
  static void prepare();
  // May be called in any thread, with any lock held. In a forked child, and while the process
  // exits, leaks the objects.
  static void let_go(Kept kept) noexcept;
  // Calls `attempt`, which must not throw, from time to time until it returns true.
  static void retry(std::function<bool()> attempt);
};

}  // namespace tensorbus::device
