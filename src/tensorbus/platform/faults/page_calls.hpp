#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tensorbus/platform/files/memfd.hpp"

// The operations on pages that fault handlers use. POSIX does not list mmap, mprotect and mremap as
// safe in handlers; on Linux they are plain system calls. They are made with syscall() for two
// reasons: the functions of a C library may take locks (musl's do), and the thread sanitizer treats
// mmap as a write that races with threads that fault on the same pages. Each argument of syscall()
// must be as wide as a register.

namespace tensorbus::platform {

using Bytes = std::span<const std::byte>;

// Attempts, of about 1 ms each, to take a lock whose holders make these calls.
inline constexpr int kPatientAttempts = 5000;

inline const std::byte* page_of(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<const std::byte*>(address) - at % page_bytes();
}

inline Bytes between(const std::byte* begin, const std::byte* end) noexcept {
  return {begin, static_cast<std::size_t>(end - begin)};
}

inline const std::byte* end_of(Bytes bytes) noexcept { return bytes.data() + bytes.size(); }

inline Bytes whole_pages(Bytes bytes) noexcept {
  return between(page_of(bytes.data()), page_of(end_of(bytes) - 1) + page_bytes());
}

// Replaces these pages by another mapping. Core dumps leave it out.
inline bool map_pages(Bytes pages, long protection, long flags, long fd,
                      std::uint64_t offset) noexcept {
  if (::syscall(SYS_mmap, pages.data(), pages.size(), protection, flags | MAP_FIXED, fd,
                static_cast<long>(offset)) < 0)
    return false;
  ::syscall(SYS_madvise, pages.data(), pages.size(), long{MADV_DONTDUMP});
  return true;
}

inline bool protect_pages(Bytes pages, long protection) noexcept {
  return ::syscall(SYS_mprotect, pages.data(), pages.size(), protection) == 0;
}

// Replaces these pages by a writable copy.
inline bool copy_pages(Bytes pages) noexcept {
  const long made = ::syscall(SYS_mmap, nullptr, pages.size(), long{PROT_READ | PROT_WRITE},
                              long{MAP_PRIVATE | MAP_ANONYMOUS}, -1L, 0L);
  if (made < 0) return false;
  std::memcpy(reinterpret_cast<void*>(made), pages.data(), pages.size());
  if (::syscall(SYS_mremap, made, pages.size(), pages.size(), long{MREMAP_MAYMOVE | MREMAP_FIXED},
                pages.data()) >= 0)
    return true;
  ::syscall(SYS_munmap, made, pages.size());
  return false;
}

}  // namespace tensorbus::platform
