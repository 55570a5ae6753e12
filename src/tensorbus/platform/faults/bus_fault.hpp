#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensorbus/platform/faults/address_list.hpp"

namespace tensorbus::platform {

// While a guard lives over a mapping of a file, touching a page of it that the file no longer has
// (somebody cut it short), or that cannot be read or written (an I/O error, no room on the disk),
// does not end the process by SIGBUS. From that page to the end of the mapping zero pages take the
// place of the file's; a line on stderr names the file, once; the instruction goes on;
// and intact_bytes() says so from then on. Only whoever asks for that learns of it: until then,
// zeros are read, and what is written there reaches no file.
//
// The first guard of a process puts a handler in front of the one it finds for SIGBUS, and leaves
// it there (see ChainedHandler); TENSORBUS_BUS_GUARD=0, read at that moment, prevents that. Every
// other SIGBUS is passed on to the handler that was found. Where the limit is:
// - a handler that is installed later comes first, and if it does not pass on, there is no guard;
// - a system call that is handed such a page (read, write, send) fails with EFAULT, without a word;
// - when there is no room for one more mapping (vm.max_map_count), SIGBUS is passed on after all.
//
// Made and dropped in any thread and in forked children, but not in a signal handler. A forked
// child has a guard of its own over its own mapping.
class FileGuard {
 public:
  // `memory` is a whole mapping, from the start of a page on; it is mapped for longer than the
  // guard lives, and so are the characters of `path` there. `file`: which it is, see identify(); 0
  // for one that nobody else maps.
  FileGuard(std::span<const std::byte> memory, std::string_view path, bool writable,
            std::uint64_t file = 0) noexcept;
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;
  ~FileGuard();

  // A number for the file, the same for all mappings of it: one of them says what happened to it.
  // With `anew` it is said again, since somebody opened the file and found it whole.
  static std::uint64_t identify(int fd, bool anew) noexcept;

  // How many bytes of the memory, from its start, still are the file's; all of them if no page had
  // to be replaced.
  // Relaxed: a thread sees what its own faults did, and other threads' only say more later.
  std::size_t intact_bytes() const noexcept { return intact_.load(std::memory_order_relaxed); }
  bool broken() const noexcept { return intact_bytes() != link_.memory.size(); }

 private:
  friend class AddressList<FileGuard>;
  friend class FileGuards;  // the handler, in bus_fault.cpp

  AddressLink<FileGuard> link_;
  const std::string_view path_;
  const bool writable_;
  const std::uint64_t file_;
  // Written in the handler, under the lock of the list.
  std::atomic<std::size_t> intact_;
  static_assert(std::atomic<std::size_t>::is_always_lock_free);
};

}  // namespace tensorbus::platform
