#pragma once

#include <cstddef>
#include <string>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

std::size_t page_bytes() noexcept;

// Anonymous shared memory of a fixed size: sealed against shrinking, growing and further seals,
// so that nobody who maps it can be hit by SIGBUS. `name` shows up in /proc/<pid>/maps only.
Fd create_sealed_memfd(const std::string& name, std::size_t bytes);

// The same, but for its mapper to seal against holes: nobody can take pages out of it afterwards,
// or map it writable. No-op where the kernel has no such seal (before 5.1). Throws Error(kProtocol)
// for one that its maker has closed to seals.
Fd create_memfd_of_fixed_size(const std::string& name, std::size_t bytes);
void seal_against_holes(int memfd, const std::string& field);

// The same memory through a descriptor that can be neither mapped nor mprotect-ed writable.
Fd reopen_read_only(int memfd);

// Checks a descriptor that a peer handed over: a readable memfd of exactly `bytes`, not 0, sealed
// as above, not on hugetlbfs. Throws Error(kProtocol) that names `field`.
void verify_sealed_memfd(int fd, std::size_t bytes, const std::string& field);
// One of create_memfd_of_fixed_size().
void verify_memfd_of_fixed_size(int fd, std::size_t bytes, const std::string& field);

// Does the file lie in huge pages (hugetlbfs)?
bool has_huge_pages(int fd) noexcept;

// Checks that a descriptor which passed that can be mapped writable. Throws the same.
void verify_writable(int fd, const std::string& field);

// Takes pages for [offset, offset + bytes) now, so that touching them later cannot fail.
// False when the kernel has none (ENOSPC, ENOMEM).
[[nodiscard]] bool reserve_pages(int memfd, std::size_t offset, std::size_t bytes);

// Gives the pages of [offset, offset + bytes) back to the kernel; they read as zero afterwards.
void punch_pages(int memfd, std::size_t offset, std::size_t bytes) noexcept;

}  // namespace tensorbus::platform
