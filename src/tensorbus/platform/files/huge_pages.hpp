#pragma once

#include <cstddef>
#include <string>

namespace tensorbus::platform {

// Which huge pages the kernel gives to shared memory (memfds).
struct HugePages {
  std::size_t bytes = 0;  // of one; 0: none
  bool everywhere =
      false;  // also where nobody asks ("always", "within_size"), not only where asked
  bool operator==(const HugePages&) const = default;
};

// Returns what shmem_enabled says at this moment, the one of this size before the one of all sizes.
// Huge pages of more than 32 MiB (arm64 with pages of 64 KiB) are not used. `settings` is for
// tests.
HugePages huge_pages(const std::string& settings = "/sys/kernel/mm/transparent_hugepage");

enum class Pages { kHuge, kSmall };

// Takes and zeroes the pages of [offset, offset + bytes) now, of this size where the kernel can.
// The range consists of whole huge pages for kHuge. The caller's mappings stay as they are, so that
// khugepaged has no reason to fill their holes. A failure (no memory, Linux before 5.14) leaves
// pages missing: reserve_pages() takes them.
void populate_pages(int memfd, std::size_t offset, std::size_t bytes, Pages pages) noexcept;

// Tries whether a new memfd gets a huge page. Throws Error(kUnsupported) that says what to do.
void try_huge_pages(const std::string& settings = "/sys/kernel/mm/transparent_hugepage");

}  // namespace tensorbus::platform
