#include "tensorbus/tensor/mcap/file_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/files/populate.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/memory_room.hpp"

namespace tensorbus::tensor::mcap {
namespace {

using Piece = std::span<const std::byte>;

constexpr std::size_t kMaxPieces = 1024;                  // IOV_MAX
constexpr std::size_t kManyPages = std::size_t{1} << 18;  // in bytes; mapped before the write

[[noreturn]] void throw_not_made(const std::string& path, int error_number) {
  const std::string what = memory::about_file(path) + "making it";
  if (error_number == EEXIST)
    throw Error(Code::kInvalidArgument,
                memory::about_file(path) + "it exists: choose another name, or overwrite it");
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS)
    throw Error(Code::kPermission, what + ": " + std::generic_category().message(error_number));
  platform::throw_system(what, error_number, platform::During::kFile);
}

// A process that reads or writes the old file keeps it.
void remove_old(const std::string& path) noexcept {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) (void)::unlink(path.c_str());
}

platform::Fd made(const std::string& path, bool overwrite) {
  if (overwrite) remove_old(path);
  const int exists = overwrite ? O_TRUNC : O_EXCL;
  platform::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | exists, 0666));
  if (!fd) throw_not_made(path, errno);
  return fd;
}

// Reads a byte of each page. A page that a mapped file has lost is replaced by zeros when this
// process accesses it (platform::FileGuard), but not when a system call does.
void touch_pages(std::span<const iovec> pieces) noexcept {
  const std::uintptr_t page = platform::page_bytes();
  for (const iovec& piece : pieces) {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.iov_base);
    const std::uintptr_t end = begin + piece.iov_len;
    for (std::uintptr_t at = begin; at < end; at = (at / page + 1) * page)
      (void)*reinterpret_cast<const volatile std::byte*>(at);
  }
}

}  // namespace

FileOutput::FileOutput(std::string path, bool overwrite)
    : path_(std::move(path)), fd_(made(path_, overwrite)) {}

int FileOutput::append(std::span<const Piece> pieces) noexcept {
  const std::uint64_t most = platform::max_file_bytes();  // beyond: the kernel raises SIGXFSZ
  std::size_t within = 0;                                 // of the first piece, already written
  std::optional<std::uint64_t> touched_at;
  while (!pieces.empty()) {
    std::array<iovec, kMaxPieces> vectors;
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    for (; count < std::min(pieces.size(), kMaxPieces); ++count) {
      const Piece piece = pieces[count].subspan(count == 0 ? within : 0);
      if (end_ + bytes > most || piece.size() > most - end_ - bytes) break;
      if (piece.size() >= kManyPages) platform::map_pages_to_read(piece);
      vectors[count] = {const_cast<std::byte*>(piece.data()), piece.size()};
      bytes += piece.size();
    }
    if (count == 0) return EFBIG;
    ssize_t written = 0;
    if (bytes > 0)
      written =
          ::pwritev(fd_.get(), vectors.data(), static_cast<int>(count), static_cast<off_t>(end_));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EFAULT && touched_at != end_) {
      touched_at = end_;  // at most once without progress
      touch_pages(std::span(vectors).first(count));
      continue;
    }
    if (written < 0) return errno;
    if (written == 0 && bytes > 0) return ENOSPC;
    end_ += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (!pieces.empty() && left >= pieces.front().size() - within) {
      left -= pieces.front().size() - within;
      within = 0;
      pieces = pieces.subspan(1);
    }
    within += left;
  }
  return 0;
}

void FileOutput::cut(std::uint64_t end) noexcept {
  end_ = end;
  [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(end));
}

}  // namespace tensorbus::tensor::mcap
