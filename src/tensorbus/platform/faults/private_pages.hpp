#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/faults/address_list.hpp"
#include "tensorbus/platform/faults/bus_fault.hpp"

namespace tensorbus::platform {

// Pages of a read-only mapping that become private to this process at the first write (mmap,
// MAP_PRIVATE). The SIGSEGV handler (write_fault.hpp) replaces them, so reading costs nothing. The
// promises: docs/internals/decisions/0023-a-write-is-the-readers-own.md.

// A read-only shared mapping whose pages may become private. Made and destroyed in any thread.
class CopyOnWriteMapping {
 public:
  enum class Blocks {
    kOfPages,  // no two blocks lie in one page
    kAnySize,  // a block that is smaller than a page may share it with others
  };

  // `memory` is the mapping of `fd` from `offset` on. The descriptor may be closed once no
  // CopyOnWrite lies in the mapping; a child may close it earlier. `guard` outlives this object.
  CopyOnWriteMapping(std::span<const std::byte> memory, int fd, std::uint64_t offset, Blocks blocks,
                     const FileGuard* guard = nullptr) noexcept;
  CopyOnWriteMapping(const CopyOnWriteMapping&) = delete;
  CopyOnWriteMapping& operator=(const CopyOnWriteMapping&) = delete;
  ~CopyOnWriteMapping();

 private:
  friend class AddressList<CopyOnWriteMapping>;
  friend class PrivatePages;
  friend class CopyOnWrite;

  // Returns the offset of an address of the mapping in the file.
  std::uint64_t place_of(const std::byte* address) const noexcept {
    return offset_ + static_cast<std::uint64_t>(address - link_.memory.data());
  }

  AddressLink<CopyOnWriteMapping> link_;
  const int fd_;
  const std::uint64_t offset_;
  const Blocks blocks_;
  const FileGuard* const guard_;
  dev_t device_ = 0;  // device_ and inode_ identify the file of the descriptor
  ino_t inode_ = 0;
};

// Pages of a CopyOnWriteMapping that are private.
struct PrivateRange {
  AddressLink<PrivateRange> link_{};
  std::uint64_t sample = 0;  // the sample that was written to
  bool outlived = false;     // its tensor was destroyed; other tensors are in these pages
  bool copied = false;       // not mapped from the file: a child had closed the descriptor
};

// While a CopyOnWrite exists, its tensor in a CopyOnWriteMapping may be written to. The tensor's
// pages become private at the first write, and shared again when no CopyOnWrite is left in them:
// before the owner reuses the memory, because each holder of the tensor keeps it leased.
//
// A write still ends the process, with a message on stderr, if there is no room for private pages
// (vm.max_map_count, RLIMIT_DATA) or if the memory is pinned for a GPU. A system call that writes
// to the memory (read, recv) fails with EFAULT and makes nothing private.
//
// Made and destroyed in any thread and in forked children, but not in a signal handler.
class TENSORBUS_API CopyOnWrite {
 public:
  // `sample` is the number of the tensor's sample (see is_of_another()). The characters of `topic`
  // are not copied: they outlive this object.
  CopyOnWrite(std::span<const std::byte> memory, std::string_view topic,
              std::uint64_t sample = 0) noexcept;
  CopyOnWrite(const CopyOnWrite&) = delete;
  CopyOnWrite& operator=(const CopyOnWrite&) = delete;
  ~CopyOnWrite();

  // Makes the next CopyOnWrite check whether the application has installed another SIGSEGV handler,
  // and install ours before it. Called when a receiver is made.
  static void look_for_handler() noexcept;

  // Returns false if a write could change another tensor in the same page: the memory is smaller
  // than a page, and the mapping has blocks that share pages.
  static bool is_possible(std::span<const std::byte> memory) noexcept;

  // Returns true if some of these bytes are private, so that other processes cannot see them.
  static bool is_private(std::span<const std::byte> memory) noexcept;

  // Returns true if some of these bytes are private because another sample was written to.
  static bool is_of_another(std::span<const std::byte> memory, std::uint64_t sample) noexcept;
  // Returns true if a CopyOnWrite of another sample covers some of the same bytes: a write to one
  // sample would change the other.
  bool overlaps_another() const noexcept;
  // Returns the owner's content of these bytes in writable memory: a private mapping of their
  // pages, or a copy if the file is guarded. Returns null in a child that has closed the
  // descriptor. Throws Error(kOutOfMemory).
  static std::shared_ptr<std::byte> map_again(std::span<const std::byte> memory);

  // Returns how many bytes of this process are private, including pages without writes. A page that
  // several tensors share may be counted more than once.
  static std::size_t private_bytes() noexcept;

 private:
  friend class AddressList<CopyOnWrite>;
  friend class PrivatePages;

  AddressLink<CopyOnWrite> link_;
  const std::string_view topic_;
  PrivateRange pages_;
};

// While a KeptShared exists, the pages of its memory stay shared: a GPU reads them by physical
// address. The constructor throws Error(kUnsupported) if some of them are private already.
class KeptShared {
 public:
  explicit KeptShared(std::span<const std::byte> memory);
  KeptShared(const KeptShared&) = delete;
  KeptShared& operator=(const KeptShared&) = delete;
  ~KeptShared();

 private:
  friend class AddressList<KeptShared>;

  AddressLink<KeptShared> link_;
};

}  // namespace tensorbus::platform
