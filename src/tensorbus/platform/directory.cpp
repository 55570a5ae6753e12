#include "tensorbus/platform/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>

#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/memory_room.hpp"

namespace tensorbus::platform {
namespace {

void make_with_parents(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) < 0 && errno != EEXIST)
      throw_system("cannot make the domain directory " + part, errno, During::kDirectory);
    if (end == std::string::npos) return;
  }
}

}  // namespace

Fd open_private_directory(const std::string& path) {
  if (::access(path.c_str(), F_OK) < 0) make_with_parents(path);
  Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory)
    throw_system("cannot open the domain directory " + path, errno, During::kDirectory);
  struct stat status{};
  if (::fstat(directory.get(), &status) < 0) throw_system("fstat " + path, errno);
  if (status.st_uid != ::geteuid())
    throw Error(Code::kPermission, "the domain directory " + path + " belongs to uid " +
                                       std::to_string(status.st_uid) + ", not to uid " +
                                       std::to_string(::geteuid()) +
                                       ": set TENSORBUS_DOMAIN to one of your own");
  if ((status.st_mode & 022) != 0)
    throw Error(Code::kPermission,
                "others may write to the domain directory " + path + ": run chmod 700 on it");
  return directory;
}

std::vector<std::string> list_directory(int directory) {
  // A fresh description: the position of the caller's is not ours to move.
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) throw_system("reading the domain directory", errno);
  DIR* stream = ::fdopendir(copy);
  if (stream == nullptr) {
    const int error_number = errno;
    ::close(copy);
    if (error_number == ENOMEM) throw_no_memory();  // of ours: it is malloc that fails
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
  if (content.size() > max_file_bytes()) refuse(EFBIG);  // to write it would be SIGXFSZ
  const Fd file(::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) refuse(errno);
  if (content.empty()) return;
  const ssize_t written = ::write(file.get(), content.data(), content.size());
  if (written == static_cast<ssize_t>(content.size())) return;
  const int error_number = written < 0 ? errno : ENOSPC;
  remove_file(directory, name);
  refuse(error_number);
}

std::string read_file(int directory, const std::string& name, std::size_t most) noexcept {
  const Fd file(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat now{};
  if (!file || ::fstat(file.get(), &now) != 0 || now.st_size <= 0) return {};
  try {
    std::string content(std::min(most, static_cast<std::size_t>(now.st_size)), '\0');
    const ssize_t count = ::read(file.get(), content.data(), content.size());
    content.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return content;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void remove_file(int directory, const std::string& name) noexcept {
  ::unlinkat(directory, name.c_str(), 0);
}

DirectoryWatch::DirectoryWatch(const std::string& path)
    : inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!inotify_) return;
  if (::inotify_add_watch(inotify_.get(), path.c_str(), IN_CREATE | IN_DELETE | IN_MOVED_TO) < 0)
    inotify_.reset();
}

bool DirectoryWatch::drain_changes() noexcept {
  if (!inotify_) return true;
  bool changed = false;
  alignas(inotify_event) std::array<char, 8192> events;
  while (::read(inotify_.get(), events.data(), events.size()) > 0) changed = true;
  return changed;
}

void DirectoryWatch::wait(std::chrono::nanoseconds timeout) noexcept {
  pollfd changed{inotify_.get(), POLLIN, 0};  // a negative descriptor is left out
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  (void)::poll(&changed, 1, static_cast<int>(rest.count()));
  (void)drain_changes();
}

}  // namespace tensorbus::platform
