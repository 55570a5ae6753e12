#pragma once

#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Read when the library is loaded: signal handlers use it, and a forked child could wait forever
// for a first call that another thread had begun.
inline const auto kPageBytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
inline std::size_t page_bytes() noexcept { return kPageBytes; }

// Makes anonymous shared memory of a fixed size. It is sealed against shrinking, growing and
// further seals, so no process that maps it can get SIGBUS. `name` appears only in
// /proc/<pid>/maps.
Fd create_sealed_memfd(const std::string& name, std::size_t bytes);

// Makes shared memory of this kind that allows one more seal. A process that has mapped it calls
// seal_against_holes(): afterwards no process can remove pages from it or map it writable.
// seal_against_holes() does nothing if the kernel lacks the seal (before 5.1), and throws
// Error(kProtocol) if no seal can be added.
Fd create_memfd_of_fixed_size(const std::string& name, std::size_t bytes);
void seal_against_holes(int memfd, const std::string& field);

// Returns a descriptor of the same memory that can be neither mapped nor mprotect-ed writable.
Fd reopen_read_only(int memfd);

// Returns a read-only descriptor of a memfd that create_sealed_memfd() made, with these bytes.
Fd sealed_copy(const std::string& name, std::span<const std::byte> bytes);
// Returns the bytes of a memfd of this kind from a peer, which may still write to it. Throws what
// verify_sealed_memfd() throws.
std::vector<std::byte> read_sealed_copy(int fd, std::size_t bytes, const std::string& field);

// Checks a descriptor from a peer: it must be a readable memfd of exactly `bytes` (not 0), sealed
// as above, not on hugetlbfs. Throws Error(kProtocol) that names `field`.
void verify_sealed_memfd(int fd, std::size_t bytes, const std::string& field);
// Makes the same checks for a memfd of create_memfd_of_fixed_size().
void verify_memfd_of_fixed_size(int fd, std::size_t bytes, const std::string& field);

// Returns true if the file lies in huge pages (hugetlbfs).
bool has_huge_pages(int fd) noexcept;

// Checks that a descriptor that passed these checks can be mapped writable. Throws the same error.
void verify_writable(int fd, const std::string& field);

// Allocates the pages of [offset, offset + bytes) now, so that touching them later cannot fail.
// Returns false if the kernel has none (ENOSPC, ENOMEM).
[[nodiscard]] bool reserve_pages(int memfd, std::size_t offset, std::size_t bytes);

// Gives the pages of [offset, offset + bytes) back to the kernel; they read as zero afterwards.
void punch_pages(int memfd, std::size_t offset, std::size_t bytes) noexcept;

}  // namespace tensorbus::platform
