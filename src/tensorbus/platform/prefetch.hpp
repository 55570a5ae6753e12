#pragma once

namespace tensorbus::platform {

// Has the cache line of an address brought here, and taken from whoever has it, as a store would:
// the store then finds it. A hint; it never faults.
inline void fetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The compiler knows PREFETCHW only where it may assume that a processor has it. On one of 64
  // bits it does nothing at worst.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace tensorbus::platform
