#include "tensorbus/platform/fork/inherited.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <new>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::platform {

namespace internal {
std::atomic<ForkEpoch> fork_epoch{1};
std::atomic<ForkEpoch> newest_guard{0};
}  // namespace internal

namespace {

constexpr ForkEpoch kForking = std::numeric_limits<ForkEpoch>::max();

// Numbers of Inheritable objects of this process, by owner; a child begins at 0.
std::array<std::atomic<std::size_t>, 2> inheritable{};

// Closes a descriptor by its number; a child closes it with close_in_child().
void close_guarded(int& fd) noexcept {
  if (fd < 0) return;
  keep_in_child(fd);
  ::close(fd);
  fd = -1;
}

}  // namespace

// The parent's record of one fork. The child and its own children keep two things until they call
// exec. The first is the write end of a pipe: the parent polls for its hang-up. The second is for
// programs that close all descriptors: a mapping of an open file that has a lock. The lock belongs
// to the open file, which the kernel closes with the last of its mappings.
struct ForkGuard {
  ForkEpoch epoch = kForking;  // the child may have inherited objects of older epochs
  std::uint64_t number = 0;    // offset of the locked byte
  int pipe = -1;               // the reading end; -1 after the hang-up
  ForkGuard* older = nullptr;
  Inherited* kept = nullptr;

  // The child's resources. The parent holds them only until the fork is over.
  int childs_pipe = -1;
  int childs_lock = -1;
  void* childs_mark = nullptr;
};

struct ForkGuards {
  Mutex forking;  // held from before a fork until after it
  ForkGuard* pending = nullptr;

  Mutex mutex;                                       // not held while let_go() runs
  ForkGuard* newest TB_GUARDED_BY(mutex) = nullptr;  // in the order of their epochs
  // The guard of all forks that cannot be watched. It never ends. In the list once it is used.
  ForkGuard unseen TB_GUARDED_BY(mutex);
  std::size_t unwatched TB_GUARDED_BY(mutex) = 0;
  std::uint64_t next_number TB_GUARDED_BY(mutex) = 0;
  int epoll TB_GUARDED_BY(mutex) = -1;
  int locks TB_GUARDED_BY(mutex) = -1;  // a memfd

  bool ready() noexcept TB_REQUIRES(mutex);
  ForkGuard* make() noexcept TB_REQUIRES(mutex);
  bool fill(ForkGuard& guard) noexcept TB_REQUIRES(mutex);
  ForkGuard* use_unseen() noexcept TB_REQUIRES(mutex);
  void unlink(const ForkGuard& guard) noexcept TB_REQUIRES(mutex);
  void set_newest_guard() const noexcept TB_REQUIRES(mutex) {
    internal::newest_guard.store(newest != nullptr ? newest->epoch : 0);
  }
  bool is_locked(const ForkGuard& guard) const noexcept TB_REQUIRES(mutex);
  void note_hang_ups() noexcept TB_REQUIRES(mutex);
  Inherited* end(ForkGuard& guard, Inherited* ended) noexcept TB_REQUIRES(mutex);

  // before_fork() locks `forking`; in_parent() unlocks it, and in_child() makes it anew.
  static void before_fork() noexcept TB_NO_THREAD_SAFETY_ANALYSIS;
  static void in_parent() noexcept TB_NO_THREAD_SAFETY_ANALYSIS;
  static void in_child() noexcept;
  static void let_go(Inherited* list) noexcept;
};

namespace {

constinit ForkGuards guards;

[[maybe_unused]] const int kForkGuardsRegistered =
    ::pthread_atfork(ForkGuards::before_fork, ForkGuards::in_parent, ForkGuards::in_child);

int reopened(int fd) noexcept {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  return ::open(path.data(), O_RDWR | O_CLOEXEC);
}

struct flock byte_of(const ForkGuard& guard) noexcept {
  struct flock byte{};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(guard.number);
  byte.l_len = 1;
  return byte;
}

// Closes the parent's copies: the child has its own, or does not exist.
void close_childs(ForkGuard& guard) noexcept {
  if (guard.childs_mark != nullptr) ::munmap(guard.childs_mark, page_bytes());
  if (guard.childs_pipe >= 0) ::close(guard.childs_pipe);
  if (guard.childs_lock >= 0) ::close(guard.childs_lock);
  guard.childs_mark = nullptr;
  guard.childs_pipe = guard.childs_lock = -1;
}

}  // namespace

bool ForkGuards::ready() noexcept {
  if (epoll < 0) {
    epoll = ::epoll_create1(EPOLL_CLOEXEC);
    close_in_child(epoll);
  }
  if (locks < 0) {
    locks = ::memfd_create("tensorbus-forks", MFD_CLOEXEC);
    close_in_child(locks);
  }
  return epoll >= 0 && locks >= 0;
}

bool ForkGuards::fill(ForkGuard& guard) noexcept {
  std::array<int, 2> ends{};
  if (!ready() || ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) < 0) return false;
  guard.pipe = ends[0];
  close_in_child(guard.pipe);
  guard.childs_pipe = ends[1];
  guard.childs_lock = reopened(locks);
  if (guard.childs_lock < 0) return false;
  struct flock byte = byte_of(guard);
  if (::fcntl(guard.childs_lock, F_OFD_SETLK, &byte) < 0) return false;
  void* const mark = ::mmap(nullptr, page_bytes(), PROT_NONE, MAP_SHARED, guard.childs_lock, 0);
  if (mark == MAP_FAILED) return false;
  guard.childs_mark = mark;
  epoll_event hang_up{};  // wait for nothing but the hang-up
  hang_up.data.ptr = &guard;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, guard.pipe, &hang_up) == 0;
}

// Used when a resource is missing: it is safe to keep all inherited objects forever.
ForkGuard* ForkGuards::use_unseen() noexcept {
  ++unwatched;
  unlink(unseen);
  unseen.epoch = kForking;
  return &unseen;
}

ForkGuard* ForkGuards::make() noexcept {
  auto* const guard = new (std::nothrow) ForkGuard;
  if (guard == nullptr) return use_unseen();
  guard->number = next_number++;
  if (fill(*guard)) return guard;
  close_childs(*guard);
  close_guarded(guard->pipe);
  delete guard;
  return use_unseen();
}

void ForkGuards::unlink(const ForkGuard& guard) noexcept {
  for (ForkGuard** at = &newest; *at != nullptr; at = &(*at)->older)
    if (*at == &guard) {
      *at = guard.older;
      return;
    }
}

void ForkGuards::before_fork() noexcept {
  guards.forking.lock();
  // Relaxed: neither this thread nor its child uses an object that another thread is making now.
  if (inheritable[0].load(std::memory_order_relaxed) == 0 &&
      inheritable[1].load(std::memory_order_relaxed) == 0)
    return;
  const MutexLock lock(guards.mutex);
  guards.pending = guards.make();
  guards.pending->older = guards.newest;
  guards.newest = guards.pending;
  guards.set_newest_guard();
}

// Also runs if the fork failed; then the guard's pipe has hung up.
void ForkGuards::in_parent() noexcept {
  if (ForkGuard* const guard = guards.pending) {
    const MutexLock lock(guards.mutex);
    guards.pending = nullptr;
    close_childs(*guard);
    guard->epoch = internal::fork_epoch.fetch_add(1, std::memory_order_relaxed) + 1;
    guards.set_newest_guard();
  }
  guards.forking.unlock();
}

// Threads that do not exist in the child may hold the mutexes, and the guards keep objects of the
// parent. So the child drops all of it, except the write end of the pipe and the mapping.
void ForkGuards::in_child() noexcept {
  if (guards.pending != nullptr && guards.pending->childs_lock >= 0)
    ::close(guards.pending->childs_lock);
  new (&guards) ForkGuards;
  // Relaxed: the child has one thread.
  internal::newest_guard.store(0, std::memory_order_relaxed);
  const auto borrowed = static_cast<std::size_t>(Inheritable::Of::kOthers);
  internal::lineage_after_fork(inheritable[borrowed].load(std::memory_order_relaxed) != 0);
  for (auto& count : inheritable) count.store(0, std::memory_order_relaxed);
}

bool ForkGuards::is_locked(const ForkGuard& guard) const noexcept {
  struct flock byte = byte_of(guard);
  return ::fcntl(locks, F_OFD_GETLK, &byte) == 0 && byte.l_type != F_UNLCK;
}

void ForkGuards::note_hang_ups() noexcept {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 0);
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) {
      ForkGuard& guard = *static_cast<ForkGuard*>(events[static_cast<std::size_t>(i)].data.ptr);
      ::epoll_ctl(epoll, EPOLL_CTL_DEL, guard.pipe, nullptr);
      close_guarded(guard.pipe);
    }
  }
}

// Ends a guard. Objects that an older child may have inherited too move to that child's guard; the
// rest is added to `ended`.
Inherited* ForkGuards::end(ForkGuard& guard, Inherited* ended) noexcept {
  while (Inherited* const one = guard.kept) {
    guard.kept = one->next_;
    const bool older = guard.older != nullptr && one->born_ < guard.older->epoch;
    Inherited*& list = older ? guard.older->kept : ended;
    one->next_ = list;
    list = one;
  }
  unlink(guard);
  delete &guard;
  return ended;
}

void ForkGuards::let_go(Inherited* list) noexcept {
  while (list != nullptr) {
    Inherited* const one = list;
    list = one->next_;
    one->let_go();
  }
}

bool keep_for_children(Inherited& what) noexcept {
  if (!may_be_inherited(what.born_)) return false;
  const MutexLock lock(guards.mutex);
  ForkGuard* const guard = guards.newest;
  if (guard == nullptr || guard->epoch <= what.born_) return false;
  what.next_ = guard->kept;
  guard->kept = &what;
  return true;
}

int children_descriptor() {
  const MutexLock lock(guards.mutex);
  if (!guards.ready()) throw_system("watching forked children", errno);
  return guards.epoll;
}

bool look_after_children() noexcept {
  Inherited* ended = nullptr;
  bool again = false;
  {
    const MutexLock lock(guards.mutex);
    guards.note_hang_ups();
    for (ForkGuard* guard = guards.newest; guard != nullptr;) {
      ForkGuard& one = *std::exchange(guard, guard->older);
      if (&one == guards.pending || &one == &guards.unseen || one.pipe >= 0) continue;
      if (guards.is_locked(one))
        again = true;
      else
        ended = guards.end(one, ended);
    }
    guards.set_newest_guard();
  }
  ForkGuards::let_go(ended);
  return again;
}

ForkedChildren forked_children() noexcept {
  const MutexLock lock(guards.mutex);
  ForkedChildren all{0, guards.unwatched};
  for (const ForkGuard* guard = guards.newest; guard != nullptr; guard = guard->older)
    if (guard != &guards.unseen) ++all.guards;
  return all;
}

Inheritable::Inheritable(Of whose) noexcept : fork_generation_(fork_generation()), whose_(whose) {
  // Relaxed: a thread that forks has already seen everything that its child needs.
  inheritable[static_cast<std::size_t>(whose_)].fetch_add(1, std::memory_order_relaxed);
}

Inheritable::~Inheritable() {
  if (fork_generation_ != fork_generation()) return;
  inheritable[static_cast<std::size_t>(whose_)].fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tensorbus::platform
