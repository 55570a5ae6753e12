#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tensorbus::platform {

// What a forked child inherited stays as it was for as long as the child, or a child of it, lives
// and has not called exec: nothing that was born before the fork is used again, or goes back to
// its owner, before that. docs/protocol.md, section 8, and docs/decisions/0018.

// Counts the forks of this process whose children are looked after.
using ForkEpoch = std::uint64_t;

namespace internal {
extern std::atomic<ForkEpoch> fork_epoch;
extern std::atomic<ForkEpoch> newest_guard;  // 0: no child lives that could have inherited anything
}  // namespace internal

// When something is born that a child may inherit.
inline ForkEpoch fork_epoch() noexcept {
  // Relaxed: a value that is too old only keeps it for a child that was forked before it was born.
  return internal::fork_epoch.load(std::memory_order_relaxed);
}

// May a child that lives have inherited what was born then?
inline bool may_be_inherited(ForkEpoch born) noexcept {
  // Relaxed: it is written before the system call that makes the child. Whoever does not see it has
  // let go of the last reference before, so the child has none.
  return born < internal::newest_guard.load(std::memory_order_relaxed);
}

// What nobody here uses any more, and a forked child may.
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
  // No child has it any more. Any thread that looks after children, with no lock of theirs. It
  // must not be asked to be kept again.
  virtual void let_go() noexcept = 0;

  ForkEpoch born_ = 0;
  Inherited* next_ = nullptr;
};

// Calls what.let_go() when the last child that may have inherited it has ended or called exec.
// False: no child has, and nothing is done. Any thread; takes no memory.
[[nodiscard]] bool keep_for_children(Inherited& what) noexcept;

// Raised for as long as it lives: there is something that a child would inherit. Without any, a
// fork is not looked after.
class Inheritable {
 public:
  enum class Of : std::uint8_t { kUs, kOthers };  // whose memory it is

  explicit Inheritable(Of whose) noexcept;
  ~Inheritable();
  Inheritable(const Inheritable&) = delete;
  Inheritable& operator=(const Inheritable&) = delete;

 private:
  const std::uint32_t fork_generation_;
  const Of whose_;
};

// Readable when children have ended or called exec: then look_after_children() is due. Throws Error
// if there is none to be had.
int children_descriptor();
// True: it is to be called again in a while, since a child that has closed its descriptors cannot
// be waited for.
bool look_after_children() noexcept;

struct ForkedChildren {
  std::size_t guards = 0;     // forks whose children may have inherited something, and live
  std::size_t unwatched = 0;  // forks whose children nobody sees end: what they inherited is kept
};
ForkedChildren forked_children() noexcept;

}  // namespace tensorbus::platform
