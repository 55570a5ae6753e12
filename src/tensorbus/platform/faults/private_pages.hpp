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

// Pages of a read-only mapping that become private at the first write: then writes reach this
// process alone (mmap, MAP_PRIVATE). The SIGSEGV handler (write_fault.hpp) puts them in place, so
// reading costs nothing. docs/decisions/0023-a-write-is-the-readers-own.md says what is promised.

// A read-only shared mapping whose pages may become private. Made and destroyed in any thread.
class CopyOnWriteMapping {
 public:
  enum class Blocks {
    kOfPages,  // no two blocks lie in one page
    kAnySize,  // a block that is smaller than a page may share it with others
  };

  // `memory` is the mapping, of `fd` from `offset` on. The descriptor may be closed when no
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

  // Returns where an address of the mapping is in the file.
  std::uint64_t place_of(const std::byte* address) const noexcept {
    return offset_ + static_cast<std::uint64_t>(address - link_.memory.data());
  }

  AddressLink<CopyOnWriteMapping> link_;
  const int fd_;
  const std::uint64_t offset_;
  const Blocks blocks_;
  const FileGuard* const guard_;
  dev_t device_ = 0;  // with the next, what the descriptor must still be
  ino_t inode_ = 0;
};

// Pages of a CopyOnWriteMapping that are private now.
struct PrivateRange {
  AddressLink<PrivateRange> link_{};
  std::uint64_t sample = 0;  // of which it shows the writes
  bool outlived = false;     // its tensor is gone, other tensors in these pages are not
  bool copied = false;       // no longer of the file: a child had closed the descriptor
};

// Lets a tensor in a CopyOnWriteMapping be written to, while it lives. The pages of the tensor
// become private at the first write. They are shared again when no CopyOnWrite is left in them. All
// who hold the tensor keep its memory leased, so this is before the owner uses the memory again.
//
// The write ends the process, as without this object, and a message on stderr says why, if there is
// no room for private pages (vm.max_map_count, RLIMIT_DATA), and if the memory is pinned for a GPU.
// A system call that writes to the memory (read, recv) fails with EFAULT, and makes nothing
// private.
//
// Made and destroyed in any thread and in forked children, but not in a signal handler.
class TENSORBUS_API CopyOnWrite {
 public:
  // `sample`: a number of the sample that the tensor belongs to; see is_of_another(). The
  // characters of `topic` are not copied: they outlive this object.
  CopyOnWrite(std::span<const std::byte> memory, std::string_view topic,
              std::uint64_t sample = 0) noexcept;
  CopyOnWrite(const CopyOnWrite&) = delete;
  CopyOnWrite& operator=(const CopyOnWrite&) = delete;
  ~CopyOnWrite();

  // Has the next CopyOnWrite look whether the application has installed another handler for
  // SIGSEGV, and come before that: to be called when something that receives is made.
  static void look_for_handler() noexcept;

  // Returns false for a tensor that may share its pages with others, which a write would change: it
  // is smaller than a page, and so may its block be.
  static bool is_possible(std::span<const std::byte> memory) noexcept;

  // Returns true if some of these bytes are private now, so that other processes cannot see them.
  static bool is_private(std::span<const std::byte> memory) noexcept;

  // Returns true if some of these bytes show what was written to another sample.
  static bool is_of_another(std::span<const std::byte> memory, std::uint64_t sample) noexcept;
  // Returns true if another CopyOnWrite, of another sample, has some of the bytes of this one: what
  // is written through either would be seen through the other.
  bool overlaps_another() const noexcept;
  // Returns these bytes as their owner has them, in memory that may be written to: a private
  // mapping of their pages, or, of a file, a copy. Null in a child that has closed the descriptor.
  // Throws Error(kOutOfMemory).
  static std::shared_ptr<std::byte> map_again(std::span<const std::byte> memory);

  // Returns the bytes of this process that are private now, also those of pages that were not
  // written to. A page that several tensors share may be counted more than once.
  static std::size_t private_bytes() noexcept;

 private:
  friend class AddressList<CopyOnWrite>;
  friend class PrivatePages;

  AddressLink<CopyOnWrite> link_;
  const std::string_view topic_;
  PrivateRange pages_;
};

// Memory whose pages stay the shared ones while this lives: a GPU reads them by their physical
// address. Throws Error(kUnsupported) if some of them are private.
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
