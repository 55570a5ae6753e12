#pragma once

namespace tensorbus::platform {

// Fetches a cache line for writing, so that a later store finds it. A hint; it never faults.
inline void fetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  // The compiler emits PREFETCHW only if it may assume that the processor has it. A 64-bit
  // processor without it ignores the instruction.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace tensorbus::platform
