#pragma once

#include <list>
#include <memory>

namespace tensorbus::memory {

// Lets go of what keeps memory that is not ours. Its end is anybody's code: it may take locks, or
// wait for a GPU. So one thread of the process does it, which holds nothing of ours.
class DeferredReleaser {
 public:
  using Kept = std::list<std::shared_ptr<const void>>;  // so that giving it up takes no memory

  // Before anything is kept. Throws Error(kSystem) if there is no thread to be had.
  static void prepare();
  // Any thread, under any lock. For good in a child, and once the process exits.
  static void let_go(Kept kept) noexcept;
};

}  // namespace tensorbus::memory
