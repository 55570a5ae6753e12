#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/faults/address_list.hpp"
#include "tensorbus/platform/faults/bus_fault.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"

namespace tensorbus::memory {

// A part of a file in memory. Its pages are those of the page cache: read on first access, and
// dropped when the machine needs memory. So the file may be larger than the machine's memory.
//
// A page that the file no longer has reads as zeros (platform::FileGuard), and check() and flush()
// throw from then on. Methods may be called in any thread, and in forked children: the descriptor
// stays open there.
class TENSORBUS_API MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  enum class Mode {
    kRead,         // writing to the memory is a fault
    kReadWrite,    // writes go to the file, seen at once by all processes that read or map it
    kCopyOnWrite,  // a written page becomes private; the file does not change
  };

  // Maps `bytes` of the file from any `offset` on. The caller keeps `fd` and may close it; `path`
  // is for messages only. Throws Error(kInvalidArgument) if the file is not a regular file or is
  // too short, Error(kUnsupported) for a file in huge pages, Error(kOutOfMemory) that names the
  // limits, or Error(kSystem).
  MappedFile(int fd, std::string path, std::size_t offset, std::size_t bytes, Mode mode);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Returns the file mapped at this address, or null. Valid while the caller keeps it mapped.
  static const MappedFile* at(const void* address) noexcept;

  std::span<std::byte> bytes() const noexcept;
  // Returns the whole mapping. It starts at a page: byte first_page() of the file.
  std::span<std::byte> pages() const noexcept { return {mapping_.data(), mapping_.size()}; }
  std::size_t first_page() const noexcept { return end_ - mapping_.size(); }
  // Returns another descriptor of the file for other processes. Throws Error(kSystem) if the file
  // cannot be opened again.
  platform::Fd descriptor(Grant grant) const;
  const std::string& path() const noexcept { return path_; }
  Mode mode() const noexcept { return mode_; }

  // Throws Error(kSystem) if the mapping may differ from the file: the file was cut short, a page
  // could not be read or written, or (unless this process writes to it) its size or modification
  // time has changed since it was mapped. The modification time does not show writes within one
  // tick of the file system's clock or, on a tmpfs, writes through mappings of other processes.
  void check() const;
  // Keeps an object until the file is unmapped; the unmapping thread releases it.
  void keep_until_unmapped(std::shared_ptr<const void> kept) const;
  // Returns when all writes are on the disk. Throws Error(kInvalidArgument) unless the mode is
  // kReadWrite, else like check().
  void flush() const;

 private:
  friend class platform::AddressList<MappedFile>;

  struct stat status() const;

  platform::AddressLink<MappedFile> link_;
  platform::Fd fd_;
  const std::string path_;
  const Mode mode_;
  const std::size_t end_;   // in the file, in bytes
  const std::size_t skip_;  // bytes of the mapping before the first requested byte
  struct stat opened_;
  platform::Mapping mapping_;
  std::optional<platform::FileGuard> guard_;  // destroyed before mapping_; none if that is empty
  mutable std::list<std::shared_ptr<const void>> kept_;
};

// Returns e.g. "file 'weights.npy': ", the beginning of all messages about a file.
std::string about_file(const std::string& path);

// Sets the size of a file to exactly `bytes` and allocates all its blocks, so that a full disk is
// an error now and not at the first access to a page. If the file system cannot allocate blocks,
// only the size is set; a full disk then shows when the guard replaces a page. On failure the file
// is empty. Throws Error(kOutOfMemory) that names the limit, or Error(kSystem).
TENSORBUS_API void allocate_file(int fd, const std::string& path, std::size_t bytes);

}  // namespace tensorbus::memory
