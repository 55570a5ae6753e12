#include "tensorbus/platform/fork_guard.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "tensorbus/platform/faults/write_handler.hpp"

namespace tensorbus::platform {

namespace internal {
std::atomic<std::uint32_t> fork_generation{0};
}

namespace {

// One bit for each descriptor number. The child may not lock or allocate, because the thread that
// held the lock does not exist there. Larger numbers stay open in the child: peers then see EOF
// only when the child ends, but still see the death of the process through the pidfd.
constexpr std::size_t kDescriptors = std::size_t{1} << 20;
constexpr std::size_t kBits = 64;
std::array<std::atomic<std::uint64_t>, kDescriptors / kBits> guarded{};
std::atomic<std::size_t> words_in_use{0};

void after_fork_in_child() noexcept {
  // Relaxed throughout: the child has one thread.
  internal::fork_generation.fetch_add(1, std::memory_order_relaxed);
  make_private_in_child();
  const std::size_t words = words_in_use.load(std::memory_order_relaxed);
  for (std::size_t word = 0; word < words; ++word) {
    std::uint64_t bits = guarded[word].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(word * kBits) + __builtin_ctzll(bits));
  }
}

[[maybe_unused]] const int kRegistered = ::pthread_atfork(nullptr, nullptr, after_fork_in_child);

bool has_bit(int fd) noexcept { return fd >= 0 && static_cast<std::size_t>(fd) < kDescriptors; }

}  // namespace

void close_in_child(int fd) noexcept {
  if (!has_bit(fd)) return;
  const std::size_t word = static_cast<std::size_t>(fd) / kBits;
  // Relaxed: a concurrent fork() in another thread sees the bit or misses it; both are handled.
  guarded[word].fetch_or(std::uint64_t{1} << (fd % kBits), std::memory_order_relaxed);
  std::size_t words = words_in_use.load(std::memory_order_relaxed);
  while (words <= word &&
         !words_in_use.compare_exchange_weak(words, word + 1, std::memory_order_relaxed)) {
  }
}

void keep_in_child(int fd) noexcept {
  if (!has_bit(fd)) return;
  guarded[static_cast<std::size_t>(fd) / kBits].fetch_and(~(std::uint64_t{1} << (fd % kBits)),
                                                          std::memory_order_relaxed);
}

}  // namespace tensorbus::platform
