#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Calls work(i) once for each i below `parts`, and returns when all calls have returned. The calls
// are made by this thread and by worker threads of the library: at most three, and as many as the
// thread that called this first had other cores, which they use. If no worker finds a core in time,
// the next jobs do without workers for a while. So does a thread that calls this while another
// one's job has them, and one that may use one core alone.
void parallel_for(std::size_t parts, void (*work)(const void* with, std::size_t i) noexcept,
                  const void* with) noexcept;

// `work` does not throw, and waits for nothing.
template <typename Work>
void parallel_for(std::size_t parts, const Work& work) noexcept {
  parallel_for(
      parts, [](const void* with, std::size_t i) noexcept { (*static_cast<const Work*>(with))(i); },
      &work);
}

}  // namespace tensorbus::platform
