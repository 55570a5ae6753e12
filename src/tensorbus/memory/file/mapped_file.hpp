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

// A stretch of a file in memory: its pages are those of the page cache, read when they are touched,
// and given back when the machine needs them, so it may be larger than the machine's memory.
//
// What touches a page that the file no longer has finds zeros there (platform::FileGuard), and
// check() and flush() throw from then on. Methods may be called by any thread, and in forked
// children: the descriptor stays open there.
class TENSORBUS_API MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  enum class Mode {
    kRead,         // writing to the memory is a fault
    kReadWrite,    // writes are the file's, and seen at once by all who read or map it
    kCopyOnWrite,  // a page that is written becomes our own; the file stays as it is
  };

  // Maps `bytes` of the file from `offset` on, any byte of it. `fd` stays the caller's, who may
  // close it; `path` is for messages only. Throws
  // Error(kInvalidArgument) if it is not a regular file or has fewer bytes, Error(kUnsupported) for
  // one of huge pages, Error(kOutOfMemory) that names the limits, Error(kSystem).
  MappedFile(int fd, std::string path, std::size_t offset, std::size_t bytes, Mode mode);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // The file that this address is mapped from, for as long as the caller keeps it mapped.
  static const MappedFile* at(const void* address) noexcept;

  std::span<std::byte> bytes() const noexcept;
  // All of the mapping, from the start of a page on, which is this byte of the file.
  std::span<std::byte> pages() const noexcept { return {mapping_.data(), mapping_.size()}; }
  std::size_t first_page() const noexcept { return end_ - mapping_.size(); }
  // Of the same file, for others to map. Throws Error(kSystem) if it cannot be opened once more.
  platform::Fd descriptor(Grant grant) const;
  const std::string& path() const noexcept { return path_; }
  Mode mode() const noexcept { return mode_; }

  // Throws Error(kSystem) if what is mapped is no longer what the file has: it was cut short; a
  // page could not be read or written; or, unless we write to it ourselves, its size or its time of
  // modification is not that of the moment it was mapped. Writes within one tick of the file
  // system's clock, and on a tmpfs those through mappings of others, do not show in that time.
  void check() const;
  // Keeps it, and lets go of it when the file is unmapped, in the thread that does that.
  void keep_until_unmapped(std::shared_ptr<const void> kept) const;
  // Returns when what was written is on the disk. Throws Error(kInvalidArgument) unless
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
  const std::size_t skip_;  // bytes of the mapping before the first that was asked for
  struct stat opened_;
  platform::Mapping mapping_;
  std::optional<platform::FileGuard> guard_;  // goes before the mapping; none over nothing
  mutable std::list<std::shared_ptr<const void>> kept_;
};

// "file 'weights.npy': ", with which all messages about one begin.
std::string about_file(const std::string& path);

// Makes a file of exactly `bytes` that has all its blocks, so that a full disk is an error now, not
// when a page is touched. Where the file system cannot promise blocks, only the size is set: there
// a full disk shows when the guard has to step in. On failure the file is empty. Throws
// Error(kOutOfMemory) that names the limit, Error(kSystem).
TENSORBUS_API void allocate_file(int fd, const std::string& path, std::size_t bytes);

}  // namespace tensorbus::memory
