#include "tensorbus/platform/limits.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace tensorbus {
namespace platform {
namespace {

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): made while there is memory
const Error kNoMemory(
    Code::kOutOfMemory,
    "out of memory for internal bookkeeping: the address space (RLIMIT_AS, ulimit -v), the data of "
    "this process (RLIMIT_DATA, ulimit -d) or the machine's memory is used up. Release some, or "
    "raise the limit");

// "RLIMIT_NOFILE is 64 (ulimit -n)"
std::string rlimit_text(ResourceLimit which, const char* name, const char* option) {
  rlimit limit{};
  const bool known = ::getrlimit(which, &limit) == 0;
  std::string value = known ? std::to_string(limit.rlim_cur) : "unknown";
  if (known && limit.rlim_cur == RLIM_INFINITY) value = "unlimited";
  return std::string(name) + " is " + value + " (ulimit " + option + ")";
}

// "vm.max_map_count is 65530"
std::string sysctl_text(const char* name, const char* path) {
  std::ifstream file(path);
  std::string value = "unknown";
  file >> value;
  return std::string(name) + " is " + value;
}

std::string address_space() { return rlimit_text(RLIMIT_AS, "RLIMIT_AS", "-v"); }

std::string no_room_to_map(bool privately) {
  std::string limits = "the address space (" + address_space() + ") or the number of mappings (" +
                       sysctl_text("vm.max_map_count", "/proc/sys/vm/max_map_count") + ")";
  if (privately)
    limits += ", or the private writable memory (" + rlimit_text(RLIMIT_DATA, "RLIMIT_DATA", "-d") +
              ", vm.overcommit_memory=2),";
  return limits + " is used up: release some, or raise the limit";
}

std::string no_thread() {
  return rlimit_text(RLIMIT_NPROC, "RLIMIT_NPROC", "-u") + " for all processes of the user, and " +
         sysctl_text("kernel.threads-max", "/proc/sys/kernel/threads-max") +
         "; pids.max of a cgroup, or " + address_space() +
         " for the stack, can be the cause too: end some threads, or raise the limit";
}

std::optional<std::string> limit_of_directory(int error_number) {
  const std::string elsewhere = ", or set TENSORBUS_DOMAIN to a directory elsewhere";
  switch (error_number) {
    case ENOSPC:
      return "its file system is full, of bytes or of inodes (see df and df -i): make room there" +
             elsewhere;
    case EDQUOT:
      return "the user's disk quota there is used up: make room there" + elsewhere;
    case EROFS:
      return "its file system is read-only: mount it writable" + elsewhere;
    case EACCES:
    case EPERM:
      return "this user may not write there: run chmod 700 on it" + elsewhere;
    default:
      return std::nullopt;
  }
}

std::optional<std::string> limit_of_file(int error_number) {
  if (error_number == ENOSPC)
    return "the file system is full (see df): make room there, or take another";
  if (error_number == EFBIG)
    return rlimit_text(RLIMIT_FSIZE, "RLIMIT_FSIZE", "-f") +
           ", in bytes, and the file system has a limit of its own: raise it, or take another";
  if (error_number == EDQUOT)
    return "the user's disk quota there is used up: make room there, or take another file system";
  return std::nullopt;
}

bool is_permission(int error_number) {
  return error_number == EROFS || error_number == EACCES || error_number == EPERM;
}

}  // namespace

std::optional<std::string> limit_behind(int error_number, During during) {
  if (during == During::kDirectory)
    if (auto limit = limit_of_directory(error_number)) return limit;
  if (during == During::kFile)
    if (auto limit = limit_of_file(error_number)) return limit;
  switch (error_number) {
    case EMFILE:
      return rlimit_text(RLIMIT_NOFILE, "RLIMIT_NOFILE", "-n") +
             ", and that many descriptors are open: close some, or raise it";
    case ENFILE:
      return sysctl_text("fs.file-max", "/proc/sys/fs/file-max") +
             " for the whole machine, and that many files are open: close some, or raise it";
    case EFBIG:
      return rlimit_text(RLIMIT_FSIZE, "RLIMIT_FSIZE", "-f") + ", in bytes: raise it";
    case ENOSPC:
      if (during != During::kPolling) return std::nullopt;
      return sysctl_text("fs.epoll.max_user_watches", "/proc/sys/fs/epoll/max_user_watches") +
             " for all processes of the user: end some, or raise it";
    case ENOMEM:
    case ENOBUFS:
      if (during == During::kThread) return no_thread();
      if (during == During::kMapping || during == During::kPrivateMapping)
        return no_room_to_map(during == During::kPrivateMapping);
      return "the kernel has no memory for it: memory of the machine, or of a cgroup "
             "(memory.max), is used up: release some, or raise the limit";
    case EAGAIN:
      if (during == During::kThread) return no_thread();
      if (during == During::kMapping || during == During::kPrivateMapping)
        return rlimit_text(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", "-l") +
               ", and all memory of this process is locked: raise it, or lock less";
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

void throw_system(const std::string& what, int error_number, During during) {
  const auto limit = limit_behind(error_number, during);
  if (!limit)
    throw Error(Code::kSystem, what + ": " + std::generic_category().message(error_number));
  const bool permission = during == During::kDirectory && is_permission(error_number);
  throw Error(permission ? Code::kPermission : Code::kOutOfMemory, what + ": " + *limit);
}

void throw_system_of_needed(const std::string& call, int error_number) {
  if (error_number != ENOSYS && error_number != EINVAL && !is_permission(error_number))
    throw_system(call, error_number);
  throw Error(Code::kUnsupported,
              call + ": " + std::generic_category().message(error_number) +
                  ". Tensorbus needs this call of Linux; the kernel does not have it, or a sandbox "
                  "(a seccomp profile, gVisor) refuses it");
}

void throw_no_memory() { throw Error(kNoMemory); }

}  // namespace platform

void throw_system(const std::string& what, int error_number) {
  platform::throw_system(what, error_number, platform::During::kAnything);
}

}  // namespace tensorbus
