#include "tensorbus/platform/files/private_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <deque>
#include <fstream>
#include <utility>

#include "tensorbus/platform/limits.hpp"

namespace tensorbus::platform {
namespace {

constexpr int kOpenPlace = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kMaxLinks = 40;      // the kernel's limit
constexpr int kMaxRestarts = 100;  // when another process removes a directory on the path
constexpr uid_t kNobody = 65534;   // the kernel shows this number for a user that is not mapped

// RENAME_NOREPLACE: the header that has it conflicts with others.
constexpr unsigned kNoReplace = 1;

using Names = std::deque<std::string>;

Names split(const std::string& path) {
  Names names;
  for (std::size_t begin = 0; begin < path.size();) {
    std::size_t end = path.find('/', begin);
    if (end == std::string::npos) end = path.size();
    if (end != begin) names.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool all_users_are_mapped() {
  std::ifstream map("/proc/self/uid_map");
  unsigned long inside = 0;
  unsigned long outside = 0;
  unsigned long count = 0;
  map >> inside >> outside >> count;
  return !map || count >= UINT_MAX;
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) < 0) throw_system("fstat " + path, errno);
  return status;
}

bool is_own(const struct stat& status) { return status.st_uid == ::geteuid(); }
bool is_roots(const struct stat& status) { return status.st_uid == 0; }

// Returns true if a user who is neither the owner nor root may write there.
bool others_may_write(const struct stat& status) {
  const bool private_group = status.st_gid == status.st_uid;
  return (status.st_mode & S_IWOTH) != 0 || ((status.st_mode & S_IWGRP) != 0 && !private_group);
}

std::string mode_text(mode_t mode) {
  std::string text(1, '0');
  for (int shift = (mode & 07000) != 0 ? 9 : 6; shift >= 0; shift -= 3)
    text += static_cast<char>('0' + ((mode >> shift) & 7));
  return text;
}

std::string us() {
  const uid_t uid = ::geteuid();
  return "uid " + std::to_string(uid) + (uid == 0 ? "" : " or root");
}

// Walks from / to one directory.
class Walk {
 public:
  Walk(const std::string& path, IfMissing if_missing)
      : path_(path), if_missing_(if_missing), rest_(split(path)) {
    if (path.empty() || path.front() != '/')
      throw Error(Code::kSystem, "the domain directory \"" + path + "\" is not an absolute path");
    start();
  }

  // Returns false if a directory on the path was removed meanwhile.
  bool go() {
    while (!rest_.empty()) {
      const std::string name = std::move(rest_.front());
      rest_.pop_front();
      if (name == ".") continue;
      if (name == "..") {
        if (way_.size() > 1) way_.pop_back();
        continue;
      }
      switch (step(name)) {
        case Step::kDone:
          break;
        case Step::kMissing:
          return true;
        case Step::kVanished:
          return false;
      }
    }
    found_ = true;
    return true;
  }

  PrivateDirectory result() {
    PrivateDirectory opened;
    if (found_) {
      Place& last = way_.back();
      require_private(last);
      opened.directory = Fd(::openat(last.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!opened.directory) refuse_system("cannot open", last.path, errno);
      way_.pop_back();
    }
    for (Place& place : way_) opened.above.push_back(std::move(place.fd));
    return opened;
  }

 private:
  enum class Step { kDone, kMissing, kVanished };
  struct Place {
    Fd fd;
    std::string path;
    struct stat status{};
    bool open_to_others = false;  // other users may create entries in it
  };

  void start() {
    way_.clear();
    Place root{Fd(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), "/"};
    if (!root.fd) refuse_system("cannot open", "/", errno);
    root.status = status_of(root.fd.get(), "/");
    push(std::move(root));
  }

  Step step(const std::string& name) {
    const int above = way_.back().fd.get();
    require_safe(way_.back());
    const std::string path = (way_.size() > 1 ? way_.back().path : "") + "/" + name;
    Fd fd(::openat(above, name.c_str(), kOpenPlace));
    if (!fd && errno == ENOENT) {
      return if_missing_ == IfMissing::kLeave ? Step::kMissing : make(name);
    }
    if (!fd) {
      const int error_number = errno;
      if (error_number != ENOTDIR && error_number != ELOOP)
        refuse_system("cannot open", path, error_number);
      follow(name, path, error_number);
      return Step::kDone;
    }
    Place place{std::move(fd), path};
    place.status = status_of(place.fd.get(), path);
    push(std::move(place));
    return Step::kDone;
  }

  // Makes and opens the missing directories under a temporary name, then renames the first one: so
  // no other process can remove them while they are empty.
  Step make(const std::string& name) {
    static std::atomic<unsigned> count{0};
    const int above = way_.back().fd.get();
    const std::string path = (way_.size() > 1 ? way_.back().path : "") + "/" + name;
    const std::string hidden =
        ".tensorbus-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    Names made{name};
    while (!rest_.empty() && rest_.front() != "." && rest_.front() != "..") {
      made.push_back(std::move(rest_.front()));
      rest_.pop_front();
    }
    std::vector<Place> places;
    for (const std::string& next : made) {
      const int in = places.empty() ? above : places.back().fd.get();
      const std::string& entry = places.empty() ? hidden : next;
      if (::mkdirat(in, entry.c_str(), 0700) < 0) {
        if (errno == ENOENT && places.empty()) return Step::kVanished;
        refuse_system("cannot make", path, errno);
      }
      Place place{Fd(::openat(in, entry.c_str(), kOpenPlace)),
                  places.empty() ? path : places.back().path + "/" + next};
      if (!place.fd) refuse_system("cannot open", path, errno);
      place.status = status_of(place.fd.get(), place.path);
      places.push_back(std::move(place));
    }
    const auto named = [&](unsigned flags) {
      // A raw system call, because some versions of musl have no function for it.
      return ::syscall(SYS_renameat2, above, hidden.c_str(), above, name.c_str(), flags) == 0;
    };
    // Some file systems lack the flag. Without it, an empty directory is replaced.
    if (!named(kNoReplace) && !(errno == EINVAL && named(0))) {
      const int error_number = errno;
      for (std::size_t i = made.size(); i-- > 1;)
        ::unlinkat(places[i - 1].fd.get(), made[i].c_str(), AT_REMOVEDIR);
      ::unlinkat(above, hidden.c_str(), AT_REMOVEDIR);
      if (error_number == EEXIST || error_number == ENOTEMPTY || error_number == ENOENT)
        return Step::kVanished;  // walk again
      refuse_system("cannot make", path, error_number);
    }
    for (Place& place : places) push(std::move(place));
    return Step::kDone;
  }

  void push(Place place) {
    // A mount has another device than its parent. If root owns the mount, root has allowed other
    // users to write to it.
    const bool mount = way_.empty() || way_.back().status.st_dev != place.status.st_dev;
    const bool sticky = (place.status.st_mode & S_ISVTX) != 0;
    place.open_to_others =
        others_may_write(place.status) && (sticky || (mount && is_roots(place.status)));
    way_.push_back(std::move(place));
  }

  void follow(const std::string& name, const std::string& path, int error_number) {
    const Place& above = way_.back();
    struct stat link{};
    const bool is_link = ::fstatat(above.fd.get(), name.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 &&
                         S_ISLNK(link.st_mode);
    if (!is_link) refuse_system("cannot open", path, error_number);
    if (above.open_to_others || !may_own(link, above))
      refuse(path, "is a symbolic link of uid " + std::to_string(link.st_uid) +
                       (above.open_to_others ? " in a directory to which others may write"
                                             : ", not of " + us()));
    if (++links_ > kMaxLinks) refuse_system("cannot open", path, ELOOP);
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(above.fd.get(), name.c_str(), target.data(), target.size());
    if (length < 0) refuse_system("cannot read the link", path, errno);
    const std::string to(target.data(), static_cast<std::size_t>(length));
    Names names = split(to);
    rest_.insert(rest_.begin(), names.begin(), names.end());
    if (to.starts_with('/')) start();
  }

  // The owner may be this user or root. Unmapped root appears as "nobody"; in a directory that
  // others may write to, "nobody" could be one of them.
  bool may_own(const struct stat& status, const Place& above) const {
    return is_own(status) || is_roots(status) ||
           (status.st_uid == kNobody && !above.open_to_others && !all_users_are_mapped());
  }

  // Throws if another user could change a directory below this one.
  void require_safe(const Place& place) const {
    const bool trusted = way_.size() == 1 ? may_own(place.status, place)
                                          : may_own(place.status, way_[way_.size() - 2]);
    if (!trusted)
      refuse(place.path,
             "belongs to uid " + std::to_string(place.status.st_uid) + ", not to " + us());
    if (others_may_write(place.status) && !place.open_to_others)
      refuse(place.path, "can be written to by others (it is of uid " +
                             std::to_string(place.status.st_uid) + ", group " +
                             std::to_string(place.status.st_gid) + ", mode " +
                             mode_text(place.status.st_mode) + "): run chmod go-w on it");
  }

  void require_private(const Place& place) const {
    if (!is_own(place.status))
      throw Error(Code::kPermission, "the domain directory " + path_ + " belongs to uid " +
                                         std::to_string(place.status.st_uid) + ", not to uid " +
                                         std::to_string(::geteuid()) +
                                         ": set TENSORBUS_DOMAIN to one of your own");
    if ((place.status.st_mode & 022) != 0)
      throw Error(Code::kPermission,
                  "others may write to the domain directory " + path_ + ": run chmod 700 on it");
  }

  [[noreturn]] void refuse(const std::string& place, const std::string& why) const {
    throw Error(Code::kPermission,
                "cannot use the domain directory " + path_ + ": " + place + ", on the way to it, " +
                    why +
                    ". Other users could redirect this process: correct that, or set "
                    "TENSORBUS_DOMAIN to a directory of your own");
  }
  [[noreturn]] void refuse_system(const std::string& what, const std::string& place,
                                  int error_number) const {
    std::string subject = what + " the domain directory " + path_;
    if (place != path_) subject += " (" + place + ", on the way to it)";
    throw_system(subject, error_number, During::kDirectory);
  }

  const std::string path_;
  const IfMissing if_missing_;
  Names rest_;
  std::vector<Place> way_;
  int links_ = 0;
  bool found_ = false;
};

}  // namespace

PrivateDirectory open_private(const std::string& path, IfMissing if_missing) {
  for (int i = 0; i < kMaxRestarts; ++i) {
    Walk walk(path, if_missing);
    if (walk.go()) return walk.result();
  }
  throw_system("cannot make the domain directory " + path, ENOENT, During::kDirectory);
}

Fd open_private_directory(const std::string& path) {
  return open_private(path, IfMissing::kMake).directory;
}

bool is_same_directory(int one, int other) noexcept {
  struct stat a{};
  struct stat b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

bool is_removed(int directory) noexcept {
  struct stat status{};
  return ::fstat(directory, &status) == 0 && status.st_nlink == 0;
}

}  // namespace tensorbus::platform
