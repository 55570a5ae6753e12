#include "tensorbus/platform/files/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/memory_room.hpp"

namespace tensorbus::platform {
std::vector<std::string> list_directory(int directory) {
  // A new open file: the read position of the caller's descriptor must not move.
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) throw_system("reading the domain directory", errno);
  DIR* stream = ::fdopendir(copy);
  if (stream == nullptr) {
    const int error_number = errno;
    ::close(copy);
    if (error_number == ENOMEM) throw_no_memory();  // malloc failed in this process
    throw_system("reading the domain directory", error_number);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closed_at_the_end(stream, ::closedir);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream)) names.emplace_back(entry->d_name);
  return names;
}

void create_file(int directory, const std::string& name, std::string_view content) {
  const auto refuse = [&name](int error_number) {
    throw_system("cannot create " + name + " in the domain directory", error_number,
                 During::kDirectory);
  };
  if (content.size() > max_file_bytes()) refuse(EFBIG);  // writing it would raise SIGXFSZ
  const Fd file(::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) refuse(errno);
  if (content.empty()) return;
  const ssize_t written = ::write(file.get(), content.data(), content.size());
  if (written == static_cast<ssize_t>(content.size())) return;
  const int error_number = written < 0 ? errno : ENOSPC;
  remove_file(directory, name);
  refuse(error_number);
}

std::string read_file(int directory, const std::string& name, std::size_t most) {
  const Fd file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
    throw_system("reading " + name + " in the domain directory", errno, During::kDirectory);
  struct stat now{};
  if (!file || ::fstat(file.get(), &now) != 0 || now.st_size <= 0) return {};
  std::string content(std::min(most, static_cast<std::size_t>(now.st_size)), '\0');
  const ssize_t count = ::read(file.get(), content.data(), content.size());
  content.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return content;
}

void remove_file(int directory, const std::string& name) noexcept {
  ::unlinkat(directory, name.c_str(), 0);
}

ino_t inode_of(int directory, const std::string& name) noexcept {
  struct stat status{};
  const int found = ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW);
  return found == 0 ? status.st_ino : 0;
}

DirectoryWatch::DirectoryWatch(int directory, const std::vector<Fd>& above)
    : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!inotify_) return;
  const auto watch = [this](int fd, std::uint32_t events) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    return ::inotify_add_watch(inotify_.get(), path.c_str(), events) >= 0;
  };
  // IN_CLOSE_WRITE: a marker counts only after its content was written.
  constexpr std::uint32_t kEntries =
      IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
  if (!watch(directory, kEntries | IN_MOVE_SELF | IN_DELETE_SELF)) inotify_.reset();
  for (const Fd& one : above)
    if (inotify_) (void)watch(one.get(), IN_MOVE_SELF);
}

DirectoryWatch::Changes DirectoryWatch::take_changes() noexcept {
  constexpr std::uint32_t kPlace =
      IN_MOVE_SELF | IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED | IN_Q_OVERFLOW;
  constexpr std::uint32_t kGone = IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
  Changes changes;
  if (!inotify_) {
    changes.some = true;
    return changes;
  }
  alignas(inotify_event) std::array<char, 8192> events;
  ssize_t length = 0;
  while ((length = ::read(inotify_.get(), events.data(), events.size())) > 0) {
    changes.some = true;
    for (ssize_t at = 0; at < length;) {
      inotify_event event{};
      std::memcpy(&event, events.data() + at, sizeof event);
      const char* const name = events.data() + at + sizeof event;
      changes.place = changes.place || (event.mask & kPlace) != 0;
      try {
        if ((event.mask & kGone) != 0 && event.len != 0) changes.gone.emplace_back(name);
      } catch (const std::bad_alloc&) {
        changes.place = true;  // the caller then checks everything
      }
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
  }
  return changes;
}

bool DirectoryWatch::drain_changes() noexcept {
  if (!inotify_) return true;
  bool changed = false;
  alignas(inotify_event) std::array<char, 8192> events;
  while (::read(inotify_.get(), events.data(), events.size()) > 0) changed = true;
  return changed;
}

void DirectoryWatch::wait(std::chrono::nanoseconds timeout) noexcept {
  pollfd changed{inotify_.get(), POLLIN, 0};  // poll ignores a negative descriptor
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  (void)::poll(&changed, 1, static_cast<int>(rest.count()));
  (void)drain_changes();
}

}  // namespace tensorbus::platform
