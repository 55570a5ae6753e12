#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tensorbus::platform {

// Objects that a forked child inherited stay unchanged until the child and its own children have
// ended or called exec. Until then, no object that was made before the fork is reused or returned
// to its owner. See docs/internals/protocol.md, section 8, and docs/internals/decisions/0018.

// Counts the forks of this process whose children are watched.
using ForkEpoch = std::uint64_t;

namespace internal {
extern std::atomic<ForkEpoch> fork_epoch;
extern std::atomic<ForkEpoch> newest_guard;  // 0: no living child has inherited anything
}  // namespace internal

// Returns the epoch for an object that is made now and that a child may inherit.
inline ForkEpoch fork_epoch() noexcept {
  // Relaxed: a value that is too old only keeps the object for an older child as well.
  return internal::fork_epoch.load(std::memory_order_relaxed);
}

// Returns true if a living child may have inherited an object that was made in this epoch.
inline bool may_be_inherited(ForkEpoch born) noexcept {
  // Relaxed: it is written before the system call that makes the child. A thread that does not see
  // the new value dropped the last reference before the fork, so the child has none.
  return born < internal::newest_guard.load(std::memory_order_relaxed);
}

// An object that this process no longer uses and that a forked child may still use.
class Inherited {
 public:
  ForkEpoch born() const noexcept { return born_; }

 protected:
  Inherited() = default;
  ~Inherited() = default;
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;

  void be_born(ForkEpoch epoch = fork_epoch()) noexcept { born_ = epoch; }

 private:
  friend struct ForkGuards;
  friend bool keep_for_children(Inherited& what) noexcept;
  // Called when no child has the object any more, in the thread that calls look_after_children(),
  // with no lock of this module held. The object must not be kept again.
  virtual void let_go() noexcept = 0;

  ForkEpoch born_ = 0;
  Inherited* next_ = nullptr;
};

// Calls what.let_go() when the last child that may have inherited it has ended or called exec.
// Returns false, without any effect, if no child has it. Any thread; allocates nothing.
[[nodiscard]] bool keep_for_children(Inherited& what) noexcept;

// While one exists, this process has an object that a child would inherit. Otherwise forks are not
// watched.
class Inheritable {
 public:
  enum class Of : std::uint8_t { kUs, kOthers };  // the owner of the memory

  explicit Inheritable(Of whose) noexcept;
  ~Inheritable();
  Inheritable(const Inheritable&) = delete;
  Inheritable& operator=(const Inheritable&) = delete;

 private:
  const std::uint32_t fork_generation_;
  const Of whose_;
};

// Returns a descriptor that becomes readable when children have ended or called exec; then call
// look_after_children(). Throws Error if none can be made.
int children_descriptor();
// Releases what ended children had inherited. Returns true if it must be called again later: a
// child has closed its descriptors, so its end cannot be polled.
bool look_after_children() noexcept;

struct ForkedChildren {
  std::size_t guards = 0;     // forks with a living child that may have inherited something
  std::size_t unwatched = 0;  // forks whose children cannot be watched: inherited objects are kept
};
ForkedChildren forked_children() noexcept;

}  // namespace tensorbus::platform
