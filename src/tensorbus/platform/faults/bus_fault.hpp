#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tensorbus/platform/faults/address_list.hpp"

namespace tensorbus::platform {

// Guards a mapping of a file against SIGBUS. A page becomes unreadable when the file is cut short,
// after an I/O error, or when the disk is full. Without a guard, an access to it ends the process.
// With a guard, zero pages replace the file's pages from the faulting one to the end of the
// mapping, one line on stderr names the file (once), and the instruction runs again. intact_bytes()
// then shows the damage. A program that does not call it reads zeros, and what it writes there does
// not reach the file.
//
// The first guard of a process installs a handler in front of the existing handler for SIGBUS, and
// leaves it there (see ChainedHandler). TENSORBUS_BUS_GUARD=0, read at that moment, prevents that.
// Every other SIGBUS is passed on to the existing handler. Limits:
// - A handler that is installed later comes first. If it does not pass the signal on, the guard
//   does not work.
// - A system call that gets the address of a damaged page (read, write, send) fails with EFAULT,
//   without a message.
// - If no further mapping is possible (vm.max_map_count), SIGBUS is passed on.
//
// Made and destroyed in any thread and in forked children, but not in a signal handler. A forked
// child makes a guard of its own for its own mapping.
class FileGuard {
 public:
  // `memory` is a whole mapping, and starts at a page. The mapping and the characters of `path`
  // outlive the guard. `file` is a number from identify(), or 0 for a file with no other mapping.
  FileGuard(std::span<const std::byte> memory, std::string_view path, bool writable,
            std::uint64_t file = 0) noexcept;
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;
  ~FileGuard();

  // Returns a number for the file, the same for all its mappings, so that damage is reported once.
  // With `anew`, it is reported once more: the file was opened again and found whole.
  static std::uint64_t identify(int fd, bool anew) noexcept;

  // Returns how many bytes, from the start of the memory, still come from the file: all of them if
  // no page was replaced. Relaxed: a thread sees the result of its own faults, and faults of other
  // threads can only lower the number later.
  std::size_t intact_bytes() const noexcept { return intact_.load(std::memory_order_relaxed); }
  bool broken() const noexcept { return intact_bytes() != link_.memory.size(); }

  // Between hold() and let_go(), no page of any guarded file is replaced. Both may be called in a
  // signal handler. hold() returns false if it cannot take the lock.
  static bool hold() noexcept;
  static void let_go() noexcept;
  // As hold(), but waits without a limit. Called before a fork, after the locks of
  // private_pages.cpp are taken.
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
