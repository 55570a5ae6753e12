#include "tensorbus/platform/waiting/life_word.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tensorbus::platform {

// Gives the kernel a list of robust futexes for this thread, with this word alone. The list is
// private memory, so that no other process can change the address that the kernel writes to.
void mark_alive(Atomic<std::uint32_t>& word) noexcept {
  thread_local struct {
    robust_list held;
    robust_list_head head;
  } own;
  own.held.next = &own.head.list;
  own.head.list.next = &own.held;
  own.head.list_op_pending = nullptr;
  own.head.futex_offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&own.held);
  if (::syscall(SYS_set_robust_list, &own.head, sizeof own.head) != 0) return;
  // Relaxed: it orders nothing.
  word.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)), std::memory_order_relaxed);
}

bool marked_alive(const Atomic<std::uint32_t>& word) noexcept {
  return (word.load(std::memory_order_relaxed) & FUTEX_TID_MASK) != 0;
}

}  // namespace tensorbus::platform
