#include "tensorbus/bus/born_allocator.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <unordered_map>
#include <utility>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {
namespace {

struct BornBlock {
  memory::BlockRef block;
  std::uint32_t fork_generation = 0;
};

struct BornBlocks {
  platform::Mutex mutex;
  std::unordered_map<const void*, BornBlock> by_first TB_GUARDED_BY(mutex);
  std::size_t bytes TB_GUARDED_BY(mutex) = 0;
};

platform::Immortal<BornBlocks> born_blocks;
// Relaxed: these only count.
std::atomic<std::uint64_t> born_count{0};
std::atomic<std::uint64_t> elsewhere_count{0};

// Returns a block of whole pages: it shares no page with other memory, and is found by its address.
memory::BlockRef born_block(Participant& core, std::size_t bytes) {
  try {
    // Does not wait: NumPy allocates with the GIL held, and a publishing thread may need the GIL to
    // go on.
    memory::BlockRef block = core.memory().allocate_without_waiting(
        std::max(bytes, platform::page_bytes()), memory::Grant::kRead);
    block->mark_born();
    born_count.fetch_add(1, std::memory_order_relaxed);
    return block;
  } catch (...) {
    elsewhere_count.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

void* enter(memory::BlockRef block) {
  const platform::MutexLock lock(born_blocks->mutex);
  void* const first = block->data();
  const std::size_t bytes = block->bytes();
  born_blocks->by_first.insert_or_assign(first,
                                         BornBlock{std::move(block), platform::fork_generation()});
  born_blocks->bytes += bytes;
  return first;
}

bool may_begin_at(const void* first) noexcept {
  return first != nullptr && reinterpret_cast<std::uintptr_t>(first) % platform::page_bytes() == 0;
}

}  // namespace

BornAllocator::BornAllocator(const ParticipantRef& participant)
    : core_(participant), fork_generation_(platform::fork_generation()) {}

void* BornAllocator::allocate(std::size_t bytes) noexcept {
  if (fork_generation_ == platform::fork_generation()) {
    try {
      if (const auto core = core_.lock()) return enter(born_block(*core, bytes));
    } catch (const Error&) {
      return nullptr;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  elsewhere_count.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

std::size_t BornAllocator::bytes_at(const void* first) noexcept {
  if (!may_begin_at(first)) return 0;
  const platform::MutexLock lock(born_blocks->mutex);
  const auto found = born_blocks->by_first.find(first);
  return found == born_blocks->by_first.end() ? 0 : found->second.block->bytes();
}

bool BornAllocator::release(const void* first) noexcept {
  if (!may_begin_at(first)) return false;
  memory::BlockRef released;  // destroyed after the mutex is unlocked
  const platform::MutexLock lock(born_blocks->mutex);
  const auto found = born_blocks->by_first.find(first);
  if (found == born_blocks->by_first.end()) return false;
  born_blocks->bytes -= found->second.block->bytes();
  if (found->second.fork_generation == platform::fork_generation())
    released = std::move(found->second.block);
  else
    platform::abandon(std::move(found->second.block));
  born_blocks->by_first.erase(found);
  return true;
}

BornAllocator::Use BornAllocator::use() noexcept {
  const platform::MutexLock lock(born_blocks->mutex);
  return {.blocks = born_blocks->by_first.size(),
          .bytes = born_blocks->bytes,
          .born = born_count.load(std::memory_order_relaxed),
          .elsewhere = elsewhere_count.load(std::memory_order_relaxed)};
}

Loan born(const Layout& layout, const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const ByteSpan span = span_of(layout);
    return Loan(born_block(*participant, span.bytes()), layout, span);
  });
}

}  // namespace tensorbus::bus
