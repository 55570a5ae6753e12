#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Calls work(i) once for each i below `parts`, and returns when all calls have returned. This
// thread and worker threads of the library make the calls. There are at most three workers, and no
// more than the other cores that the first caller could use; they run on those cores. The calling
// thread works alone if the workers have the job of another thread, if it may use only one core,
// and for a number of jobs after one in which no worker got a core in time.
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
