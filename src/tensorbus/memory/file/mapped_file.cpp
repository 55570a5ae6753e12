#include "tensorbus/memory/file/mapped_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/memory_room.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {
namespace {

using platform::Mapping;

constinit platform::AddressList<MappedFile> files;

void lock_files() noexcept TB_ACQUIRE(files) { files.lock(); }
void unlock_files() noexcept TB_RELEASE(files) { files.unlock(); }
[[maybe_unused]] const int kRegistered = ::pthread_atfork(lock_files, unlock_files, unlock_files);

std::string text_of(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

std::size_t end_of(const std::string& path, std::size_t offset, std::size_t bytes) {
  std::size_t end = 0;
  if (__builtin_add_overflow(offset, bytes, &end) || end > static_cast<std::size_t>(INT64_MAX))
    throw Error(Code::kInvalidArgument, about_file(path) + text_of(bytes) + " from byte " +
                                            std::to_string(offset) +
                                            " on: a file has at most 2^63 - 1 bytes");
  return end;
}

Mapping::Access access_of(MappedFile::Mode mode) {
  if (mode == MappedFile::Mode::kRead) return Mapping::Access::kRead;
  return mode == MappedFile::Mode::kReadWrite ? Mapping::Access::kReadWrite
                                              : Mapping::Access::kCopyOnWrite;
}

Mapping map(int fd, const std::string& path, std::size_t begin, std::size_t end,
            MappedFile::Mode mode) {
  try {
    return {fd, end - begin, access_of(mode), begin};
  } catch (const Error& error) {
    throw Error(error.code(), about_file(path) + error.what());
  }
}

bool is_same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

std::string about_file(const std::string& path) { return "file '" + path + "': "; }

MappedFile::MappedFile(int fd, std::string path, std::size_t offset, std::size_t bytes, Mode mode)
    : fd_(platform::duplicate(fd)),
      path_(std::move(path)),
      mode_(mode),
      end_(end_of(path_, offset, bytes)),
      skip_(offset % platform::page_bytes()),
      opened_(status()) {
  platform::keep_in_child(fd_.get());  // an open file does not hide a process's end from peers
  if (!S_ISREG(opened_.st_mode))
    throw Error(Code::kInvalidArgument,
                about_file(path_) + "it is not a regular file, and only those can be mapped");
  if (platform::has_huge_pages(fd_.get()))
    throw Error(Code::kUnsupported,
                about_file(path_) +
                    "it lies in huge pages (hugetlbfs): if cut short, reading it would end the "
                    "process. Copy it to another file system, or read it into memory");
  if (static_cast<std::size_t>(opened_.st_size) < end_)
    throw Error(Code::kInvalidArgument,
                about_file(path_) + "it has " + text_of(static_cast<std::size_t>(opened_.st_size)) +
                    ", but " + text_of(bytes) + " from byte " + std::to_string(offset) +
                    " on are needed: it is not complete, or has another shape, dtype or offset");
  if (bytes == 0) return;
  mapping_ = map(fd_.get(), path_, offset - skip_, end_, mode);
  const std::span whole(mapping_.data(), mapping_.size());
  guard_.emplace(whole, path_, mode != Mode::kRead, platform::FileGuard::identify(fd_.get(), true));
  link_.memory = whole;
  files.lock();
  files.add(*this);
  files.unlock();
}

MappedFile::~MappedFile() {
  if (!guard_) return;
  files.lock();
  files.remove(*this);
  files.unlock();
}

void MappedFile::keep_until_unmapped(std::shared_ptr<const void> kept) const {
  std::list<std::shared_ptr<const void>> one;
  one.push_back(std::move(kept));
  files.lock();  // unlocked in a forked child; no code allocates while it is held
  kept_.splice(kept_.end(), one);
  files.unlock();
}

const MappedFile* MappedFile::at(const void* address) noexcept {
  files.lock();
  const MappedFile* found = files.find(address);
  files.unlock();
  return found;
}

std::span<std::byte> MappedFile::bytes() const noexcept {
  if (!guard_) return {};
  return {mapping_.data() + skip_, mapping_.size() - skip_};
}

// A descriptor that was opened for writing would let a reader write.
platform::Fd MappedFile::descriptor(Grant grant) const {
  if (grant == Grant::kWrite || mode_ != Mode::kReadWrite) return platform::duplicate(fd_.get());
  return platform::reopen_read_only(fd_.get());
}

struct stat MappedFile::status() const {
  struct stat status{};
  if (::fstat(fd_.get(), &status) < 0) throw_system(about_file(path_) + "examining it", errno);
  return status;
}

void MappedFile::check() const {
  const struct stat now = status();
  const auto size = static_cast<std::size_t>(now.st_size);
  const std::string remedy = " Do not use the memory: map the file again";
  if (size < end_)
    throw Error(Code::kSystem,
                about_file(path_) + "it was cut short while it was mapped: " + text_of(end_) +
                    " expected, " + text_of(size) + " found." + remedy + " when it is complete");
  if (guard_ && guard_->broken())
    throw Error(Code::kSystem,
                about_file(path_) +
                    "it was cut short for a while, or could not be read or written (an "
                    "I/O error, a full disk): of " +
                    text_of(end_) + " expected, zeros replaced all from byte " +
                    std::to_string(end_ - mapping_.size() + guard_->intact_bytes()) +
                    " on, and later writes there are lost." + remedy);
  if (mode_ != Mode::kReadWrite &&
      (now.st_size != opened_.st_size || !is_same_time(now.st_mtim, opened_.st_mtim)))
    throw Error(Code::kSystem, about_file(path_) + "it was written to after it was mapped: " +
                                   text_of(static_cast<std::size_t>(opened_.st_size)) +
                                   " expected, " + text_of(size) + " found." + remedy +
                                   ", with mode=\"r+\" to see the writes of others");
}

void MappedFile::flush() const {
  if (mode_ != Mode::kReadWrite)
    throw Error(Code::kInvalidArgument,
                about_file(path_) +
                    "its mode keeps writes out of the file, so there is nothing to flush: map it "
                    "with mode=\"r+\"");
  if (guard_ && ::msync(mapping_.data(), mapping_.size(), MS_SYNC) < 0)
    throw_system(about_file(path_) + "writing it to the disk", errno);
  check();
}

void allocate_file(int fd, const std::string& path, std::size_t bytes) {
  const std::string what = about_file(path) + "making room for " + text_of(bytes);
  // Beyond the limit, the kernel raises SIGXFSZ.
  if (bytes > platform::max_file_bytes())
    platform::throw_system(what, EFBIG, platform::During::kFile);
  if (::ftruncate(fd, 0) < 0) throw_system(what, errno);
  if (bytes == 0) return;
  const auto size = static_cast<off_t>(bytes);
  int error = EINTR;
  while (error == EINTR) error = ::posix_fallocate(fd, 0, size);
  // musl returns EOPNOTSUPP. glibc writes a byte into each block instead.
  if (error == EOPNOTSUPP) error = ::ftruncate(fd, size) < 0 ? errno : 0;
  if (error == 0) return;
  [[maybe_unused]] const int emptied = ::ftruncate(fd, 0);  // gives back what was allocated
  platform::throw_system(what, error, platform::During::kFile);
}

}  // namespace tensorbus::memory
