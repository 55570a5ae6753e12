#pragma once

#include <list>
#include <memory>

namespace tensorbus::memory {

// Releases the objects that keep memory of other allocators. Their destructors are other people's
// code: they may take locks, or wait for a GPU. So one thread of the process runs them, and holds
// no lock of ours meanwhile.
class DeferredReleaser {
 public:
  using Kept = std::list<std::shared_ptr<const void>>;  // let_go() allocates nothing

  // Called before anything is kept. Throws Error(kSystem) if the thread cannot be started.
  static void prepare();
  // Any thread, under any lock. In a child, and while the process exits, it leaks them.
  static void let_go(Kept kept) noexcept;
};

}  // namespace tensorbus::memory
