#include "tensorbus/platform/fd.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {
namespace {

// File names start with a slash, so no user can give a file a name of this form.
bool kernel_name_starts_with(int fd, std::string_view start) noexcept {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  std::array<char, 128> name{};
  const ssize_t length = ::readlink(path.data(), name.data(), name.size());
  return length > 0 &&
         std::string_view(name.data(), static_cast<std::size_t>(length)).starts_with(start);
}

}  // namespace

Fd duplicate(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) throw_system("duplicating a descriptor", errno);
  return copy;
}

Fd make_event() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw_system("eventfd", errno);
  return fd;
}

void signal_event(int event_fd) noexcept {
  const std::uint64_t one = 1;
  // EAGAIN: the counter is full, so the reader will wake up in any case.
  [[maybe_unused]] const ssize_t written = ::write(event_fd, &one, sizeof one);
}

void clear_event(int event_fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(event_fd, &count, sizeof count);
}

Fd open_own_pidfd() noexcept {
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

std::size_t open_descriptors() noexcept {
  static constexpr const char* kPath = "/proc/self/fd";
  struct stat status{};
  if (::stat(kPath, &status) != 0) return 0;
  if (status.st_size != 0) return static_cast<std::size_t>(status.st_size);
  DIR* const directory = ::opendir(kPath);
  if (directory == nullptr) return 0;
  std::size_t count = 0;
  while (const dirent* const entry = ::readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(directory);
  return count - 1;  // the directory itself was one of them
}

bool is_pidfd(int fd) noexcept {
  // "anon_inode:[pidfd]" up to Linux 6.8, "pidfd:[inode]" since.
  return kernel_name_starts_with(fd, "anon_inode:[pidfd]") ||
         kernel_name_starts_with(fd, "pidfd:[");
}

}  // namespace tensorbus::platform
