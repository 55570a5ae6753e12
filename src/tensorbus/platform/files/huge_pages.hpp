#pragma once

#include <cstddef>
#include <string>

namespace tensorbus::platform {

// The huge pages that the kernel gives to shared memory (memfds).
struct HugePages {
  std::size_t bytes = 0;    // size of one huge page; 0: there are none
  bool everywhere = false;  // also without madvise ("always", "within_size")
  bool operator==(const HugePages&) const = default;
};

// Reads shmem_enabled now. The setting of one page size takes precedence over the common setting,
// unless the common setting is "deny" or "force". Huge pages of more than 32 MiB (arm64 with pages
// of 64 KiB) are not used. `settings` is for tests.
HugePages huge_pages(const std::string& settings = "/sys/kernel/mm/transparent_hugepage");

enum class Pages { kHuge, kSmall };

// Allocates and zeroes the pages of [offset, offset + bytes) now, in huge pages for kHuge where the
// kernel can; the range then consists of whole huge pages. The caller's mappings stay as they are,
// so that khugepaged has no reason to fill their holes. After a failure (no memory, Linux before
// 5.14), reserve_pages() allocates the missing pages.
void populate_pages(int memfd, std::size_t offset, std::size_t bytes, Pages pages) noexcept;

// Tests whether a new memfd gets a huge page. Throws Error(kUnsupported) that names the remedy.
void try_huge_pages(const std::string& settings = "/sys/kernel/mm/transparent_hugepage");

}  // namespace tensorbus::platform
