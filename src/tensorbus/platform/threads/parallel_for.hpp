#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Calls work(i) once for each i below `parts`, and returns when all calls have returned. The
// calling thread and worker threads of the library make the calls. There are at most three workers,
// and no more than the other cores that the first caller could use; they run on those cores. The
// calling thread works alone if the workers run a job of another thread, or if it may use only one
// core. After a job in which no worker got a core in time, some further jobs use no workers.
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
