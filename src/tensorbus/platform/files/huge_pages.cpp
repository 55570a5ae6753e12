#include "tensorbus/platform/files/huge_pages.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <new>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tensorbus::platform {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

// Returns the word in brackets: "always within_size [advise] never deny force".
std::string chosen(const std::string& path) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (word.size() > 2 && word.front() == '[' && word.back() == ']')
      return word.substr(1, word.size() - 2);
  return {};
}

std::size_t size_of_one(const std::string& settings) {
  std::ifstream file(settings + "/hpage_pmd_size");
  std::size_t bytes = 0;
  return file >> bytes && bytes > page_bytes() && bytes <= kMaxBytes ? bytes : 0;
}

// Returns the setting for pages of this size. Since Linux 6.11 each size has its own.
std::string setting(const std::string& settings, std::size_t bytes) {
  const std::string own =
      chosen(settings + "/hugepages-" + std::to_string(bytes / 1024) + "kB/shmem_enabled");
  const std::string all = chosen(settings + "/shmem_enabled");
  return own.empty() || own == "inherit" || all == "deny" || all == "force" ? all : own;
}

Mapping advised(int memfd, std::size_t offset, std::size_t bytes, Pages pages) {
  Mapping mapping(memfd, bytes, Mapping::Access::kReadWrite, offset);
  ::madvise(mapping.data(), bytes, MADV_DONTFORK);
  ::madvise(mapping.data(), bytes, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return mapping;
}

// Returns how much memory the first byte of a memfd of `bytes` takes.
std::size_t bytes_for_one(std::size_t bytes) {
  const Fd memfd = create_sealed_memfd("tensorbus-doctor", bytes);
  const Mapping mapping = advised(memfd.get(), 0, bytes, Pages::kHuge);
  if (::madvise(mapping.data(), page_bytes(), MADV_POPULATE_WRITE) < 0)
    throw_system("madvise(MADV_POPULATE_WRITE), which needs Linux 5.14", errno);
  struct stat status{};
  if (::fstat(memfd.get(), &status) < 0) throw_system("fstat of a memfd", errno);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

}  // namespace

HugePages huge_pages(const std::string& settings) {
  const std::size_t bytes = size_of_one(settings);
  if (bytes == 0) return {};
  const std::string chosen = setting(settings, bytes);
  if (chosen == "advise") return {bytes, false};
  if (chosen == "within_size" || chosen == "always" || chosen == "force") return {bytes, true};
  return {};
}

void populate_pages(int memfd, std::size_t offset, std::size_t bytes, Pages pages) noexcept {
  try {
    const Mapping mapping = advised(memfd, offset, bytes, pages);
    ::madvise(mapping.data(), bytes, MADV_POPULATE_WRITE);
  } catch (const Error&) {  // no room for a mapping
  } catch (const std::bad_alloc&) {
  }
}

void try_huge_pages(const std::string& settings) {
  const std::size_t one = size_of_one(settings);
  if (one == 0) throw Error(Code::kUnsupported, "this kernel has no huge pages of a usable size");
  if (huge_pages(settings).bytes == 0)
    throw Error(Code::kUnsupported, settings + "/shmem_enabled is \"" + setting(settings, one) +
                                        "\": as root, write \"advise\" into it");
  if (bytes_for_one(one) < one)
    throw Error(Code::kUnsupported,
                "the kernel has no free huge page: memory is fragmented (echo 1 into "
                "/proc/sys/vm/compact_memory), or prctl(PR_SET_THP_DISABLE) was called");
}

}  // namespace tensorbus::platform
