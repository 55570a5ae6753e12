#include "tensorbus/platform/files/memfd.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/memory_room.hpp"

namespace tensorbus::platform {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int kSeals = kSizeSeals | F_SEAL_SEAL;

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
constexpr int kWriteSeals = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

[[noreturn]] void refuse(const std::string& field, const std::string& why) {
  throw Error(Code::kProtocol, field + ": expected a sealed memfd, got " + why);
}

Fd create(const std::string& name, std::size_t bytes, int seals) {
  if (bytes > max_file_bytes())  // ftruncate would raise SIGXFSZ
    throw_system("cannot make " + std::to_string(bytes) + " bytes of shared memory", EFBIG);
  Fd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw_system_of_needed("memfd_create(MFD_ALLOW_SEALING)", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0) throw_system("sizing a memfd", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, seals) < 0)
    throw_system_of_needed("fcntl(F_ADD_SEALS) of a memfd", errno);
  return fd;
}

void verify(int fd, std::size_t bytes, const std::string& field, int wanted) {
  struct stat status{};
  if (::fstat(fd, &status) < 0) refuse(field, "a descriptor that cannot be examined");
  if (!S_ISREG(status.st_mode)) refuse(field, "something that is not a file");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) refuse(field, "a file that cannot be sealed");
  if ((seals & wanted) != wanted) refuse(field, "one that lacks seals");
  if ((::fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY) refuse(field, "one that cannot be read");
  if (status.st_size == 0) refuse(field, "an empty one");
  if (static_cast<std::size_t>(status.st_size) != bytes)
    refuse(field,
           "one of " + std::to_string(status.st_size) + " bytes, not " + std::to_string(bytes));
  if (has_huge_pages(fd)) refuse(field, "one of huge pages");
}

}  // namespace

bool has_huge_pages(int fd) noexcept {
  struct statfs filesystem{};
  return ::fstatfs(fd, &filesystem) == 0 && filesystem.f_type == HUGETLBFS_MAGIC;
}

Fd create_sealed_memfd(const std::string& name, std::size_t bytes) {
  return create(name, bytes, kSeals);
}

Fd create_memfd_of_fixed_size(const std::string& name, std::size_t bytes) {
  return create(name, bytes, kSizeSeals);
}

// With this seal, shmem refuses to punch holes. Existing writable mappings stay writable.
void seal_against_holes(int memfd, const std::string& field) {
  if (::fcntl(memfd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0 && errno != EINVAL)
    refuse(field, "one that cannot be sealed");
}

Fd reopen_read_only(int memfd) {
  const std::string path = "/proc/self/fd/" + std::to_string(memfd);
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_system("reopening a memfd read-only through /proc (is /proc mounted?)", errno);
  return fd;
}

void verify_sealed_memfd(int fd, std::size_t bytes, const std::string& field) {
  verify(fd, bytes, field, kSeals);
}

void verify_memfd_of_fixed_size(int fd, std::size_t bytes, const std::string& field) {
  verify(fd, bytes, field, kSizeSeals);
}

void verify_writable(int fd, const std::string& field) {
  if ((::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR) refuse(field, "one that cannot be written");
  if ((::fcntl(fd, F_GET_SEALS) & kWriteSeals) != 0) refuse(field, "one sealed against writing");
}

Fd sealed_copy(const std::string& name, std::span<const std::byte> bytes) {
  const Fd memfd = create_sealed_memfd(name, bytes.size());
  for (std::size_t done = 0; done < bytes.size();) {
    const auto rest = bytes.subspan(done);
    const ssize_t written =
        ::pwrite(memfd.get(), rest.data(), rest.size(), static_cast<off_t>(done));
    if (written < 0 && errno != EINTR) throw_system("writing to a memfd", errno);
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  return reopen_read_only(memfd.get());
}

std::vector<std::byte> read_sealed_copy(int fd, std::size_t bytes, const std::string& field) {
  verify_sealed_memfd(fd, bytes, field);
  std::vector<std::byte> copy(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t found = ::pread(fd, copy.data() + done, bytes - done, static_cast<off_t>(done));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) refuse(field, "one that cannot be read");
    done += static_cast<std::size_t>(found);
  }
  return copy;
}

bool reserve_pages(int memfd, std::size_t offset, std::size_t bytes) {
  while (::fallocate(memfd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) < 0) {
    if (errno == ENOSPC || errno == ENOMEM) return false;
    if (errno != EINTR) throw_system("reserving memory", errno);
  }
  return true;
}

void punch_pages(int memfd, std::size_t offset, std::size_t bytes) noexcept {
  // After a failure the pages stay allocated; the caller's records are correct in both cases.
  [[maybe_unused]] const int done =
      ::fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(bytes));
}

}  // namespace tensorbus::platform
