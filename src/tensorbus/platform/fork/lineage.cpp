#include "tensorbus/platform/fork/lineage.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::platform {
namespace {

// Numbers instead of Fd: a child may not run destructors, and keeps the write end.
struct Own {
  Mutex mutex;
  int reading TB_GUARDED_BY(mutex) = -1;
  int writing TB_GUARDED_BY(mutex) = -1;
};
constinit Own own;

}  // namespace

Fd own_lineage() {
  const MutexLock lock(own.mutex);
  if (own.reading < 0) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) < 0) throw_system("pipe2", errno);
    close_in_child(ends[0]);
    own.writing = ends[1];
    own.reading = ends[0];
  }
  return duplicate(own.reading);
}

bool is_lineage(int fd) noexcept {
  struct stat status{};
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && ::fstat(fd, &status) == 0 &&
         S_ISFIFO(status.st_mode);
}

bool lineage_ended(int fd) noexcept {
  pollfd end{fd, 0, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// A thread that does not exist here may have held the mutex.
void internal::lineage_after_fork(bool inherited) noexcept TB_NO_THREAD_SAFETY_ANALYSIS {
  if (!inherited && own.writing >= 0) ::close(own.writing);
  new (&own) Own;
}

}  // namespace tensorbus::platform
