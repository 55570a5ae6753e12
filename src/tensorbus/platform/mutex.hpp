#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Annotations that name the mutex of a member or a function. Clang checks them (-Wthread-safety);
// other compilers ignore them. Their use and checks: docs/internals/threading.md.
#ifdef __clang__
#define TB_ANNOTATION(x) __attribute__((x))
#else
#define TB_ANNOTATION(x)
#endif

// A class whose objects are locks; a class whose objects hold a lock while they exist.
#define TB_CAPABILITY(name) TB_ANNOTATION(capability(name))
#define TB_SCOPED_CAPABILITY TB_ANNOTATION(scoped_lockable)
// A member that is read and written with the mutex held.
#define TB_GUARDED_BY(mutex) TB_ANNOTATION(guarded_by(mutex))
// A function whose caller holds the mutexes, or holds none of them.
#define TB_REQUIRES(...) TB_ANNOTATION(requires_capability(__VA_ARGS__))
#define TB_EXCLUDES(...) TB_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TB_ACQUIRE(...) TB_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TB_TRY_ACQUIRE(...) TB_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TB_RELEASE(...) TB_ANNOTATION(release_capability(__VA_ARGS__))
#define TB_ASSERT_HELD(...) TB_ANNOTATION(assert_capability(__VA_ARGS__))
#define TB_NO_THREAD_SAFETY_ANALYSIS TB_ANNOTATION(no_thread_safety_analysis)

namespace tensorbus::platform {

// std::mutex with annotations, which libstdc++ lacks.
class TB_CAPABILITY("mutex") Mutex {
 public:
  void lock() TB_ACQUIRE() { mutex_.lock(); }
  void unlock() TB_RELEASE() { mutex_.unlock(); }
  bool try_lock() TB_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  // Does nothing. Used in a lambda that runs with the mutex held: the analysis does not see its
  // caller.
  void assert_held() const TB_ASSERT_HELD() {}

 private:
  friend class Condition;
  std::mutex mutex_;
};
static_assert(sizeof(Mutex) == sizeof(std::mutex));

class TB_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TB_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  MutexLock(Mutex& mutex, std::adopt_lock_t) TB_REQUIRES(mutex) : mutex_(mutex) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() TB_RELEASE() { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

// Releases a mutex that a MutexLock holds, until the end of the scope.
class TB_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) TB_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;
  ~MutexUnlock() TB_RELEASE() { mutex_.lock(); }

 private:
  Mutex& mutex_;
};

class Condition {
 public:
  // May return without a notification, as std::condition_variable does.
  void wait(Mutex& mutex) TB_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    (void)lock.release();
  }
  // As wait(), but returns at `then` at the latest.
  void wait_until(Mutex& mutex, std::chrono::steady_clock::time_point then) TB_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    (void)condition_.wait_until(lock, then);
    (void)lock.release();
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tensorbus::platform
