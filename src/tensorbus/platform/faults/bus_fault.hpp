#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensorbus/platform/faults/address_list.hpp"

namespace tensorbus::platform {

// Guards a mapping of a file against SIGBUS. A page can become unreadable when the file is cut
// short, after an I/O error, or when the disk is full. Without a guard, touching it ends the
// process. With a guard, zero pages replace the file's pages from that one to the end of the
// mapping, one line on stderr names the file (once), and the instruction goes on. intact_bytes()
// then reports the damage. A program that does not ask reads zeros, and what it writes there
// reaches no file.
//
// The first guard of a process installs a handler in front of the existing handler for SIGBUS, and
// leaves it there (see ChainedHandler). TENSORBUS_BUS_GUARD=0, read at that moment, prevents that.
// Every other SIGBUS is passed on to the existing handler. Limits:
// - A handler that is installed later comes first. If it does not pass the signal on, there is no
//   guard.
// - A system call that gets the address of a damaged page (read, write, send) fails with EFAULT,
//   without a message.
// - If no further mapping is possible (vm.max_map_count), SIGBUS is passed on.
//
// Made and destroyed in any thread and in forked children, but not in a signal handler. A forked
// child has a guard of its own over its own mapping.
class FileGuard {
 public:
  // `memory` is a whole mapping, and starts at a page. It, and the characters of `path`, outlive
  // the guard. `file` is a number from identify(), or 0 for a file that nobody else maps.
  FileGuard(std::span<const std::byte> memory, std::string_view path, bool writable,
            std::uint64_t file = 0) noexcept;
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;
  ~FileGuard();

  // Returns a number for the file, the same for all its mappings, so that damage is reported once.
  // With `anew` it can be reported again, because the file was opened again and found whole.
  static std::uint64_t identify(int fd, bool anew) noexcept;

  // Returns how many bytes of the memory, from its start, still come from the file: all of them if
  // no page was replaced. Relaxed: a thread sees the result of its own faults; faults of other
  // threads can only lower the number later.
  std::size_t intact_bytes() const noexcept { return intact_.load(std::memory_order_relaxed); }
  bool broken() const noexcept { return intact_bytes() != link_.memory.size(); }

  // While it is held, no page of any guarded file is replaced. For code that runs in a handler,
  // too. hold() returns false if it cannot be had.
  static bool hold() noexcept;
  static void let_go() noexcept;
  // The same before a fork, after the locks of private_pages.cpp.
  static void hold_for_fork() noexcept;

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
