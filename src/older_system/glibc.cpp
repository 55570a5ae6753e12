// Functions of glibc that are newer than 2.28, for the wheels: what the rest of the library calls
// is found here, and nothing newer is asked of the system. Linked into each shared object, hidden.
// scripts/wheels says which libraries to link with (TENSORBUS_LINK_LIBRARIES); a function that is
// missing here is not found by the linker.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

struct stat;

extern "C" {

// glibc 2.32. True only in a process that never had a second thread: libstdc++ then counts without
// atomic instructions. A process with a participant has threads.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the name is glibc's
extern char __libc_single_threaded;
char __libc_single_threaded = 0;
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// glibc 2.33; before, they were in each program. The struct is the kernel's on 64 bits.
int stat(const char* path, struct stat* to) {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, to, 0));
}
int lstat(const char* path, struct stat* to) {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW));
}
int fstat(int fd, struct stat* to) { return static_cast<int>(::syscall(SYS_fstat, fd, to)); }
int fstatat(int fd, const char* path, struct stat* to, int flags) {
  return static_cast<int>(::syscall(SYS_newfstatat, fd, path, to, flags));
}

// glibc 2.30.
pid_t gettid() { return static_cast<pid_t>(::syscall(SYS_gettid)); }
}

namespace {

using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);

// That of a newer glibc, or null. Found when the library is loaded, for threads that may not wait
// for the loader later.
ClockWait newer_wait = nullptr;
__attribute__((constructor)) void find_newer_wait() {
  newer_wait = reinterpret_cast<ClockWait>(::dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
}

constexpr long kSecond = 1'000'000'000;

long difference_ns(const timespec& later, const timespec& earlier) {
  return (later.tv_sec - earlier.tv_sec) * kSecond + (later.tv_nsec - earlier.tv_nsec);
}

}  // namespace

// glibc 2.30. An older one waits by the clock that may be set. So each wait is short: after the
// clock was set it ends with ETIMEDOUT at most that much too late, and callers look at their own
// clock.
extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      clockid_t clock, const timespec* until) {
  if (newer_wait != nullptr) return newer_wait(condition, mutex, clock, until);
  constexpr long kLongest = 5 * kSecond;
  timespec now{};
  timespec settable{};
  ::clock_gettime(clock, &now);
  ::clock_gettime(CLOCK_REALTIME, &settable);
  const long seconds = until->tv_sec - now.tv_sec;
  const bool whole = seconds < kLongest / kSecond;
  long left = kLongest;
  if (whole) left = seconds < -1 ? 0 : std::max(0L, difference_ns(*until, now));
  settable.tv_nsec += left % kSecond;
  settable.tv_sec += left / kSecond + settable.tv_nsec / kSecond;
  settable.tv_nsec %= kSecond;
  const int result = ::pthread_cond_timedwait(condition, mutex, &settable);
  return result == ETIMEDOUT && !whole ? 0 : result;  // a spurious wake-up
}
