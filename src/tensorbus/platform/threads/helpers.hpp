#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Calls work(i) once for each i below `parts`, and returns when all calls have returned. The calls
// are made by this thread and by threads of the library's own: at most three, and as many as the
// thread that called this first had other cores, which they use. One that finds no core in time
// makes no call; then the next jobs do without helpers for a while. So do threads that call this
// while another one's job is helped, and those that may use one core alone.
void in_parts(std::size_t parts, void (*work)(const void* with, std::size_t i) noexcept,
              const void* with) noexcept;

// `work` does not throw, and waits for nothing.
template <typename Work>
void in_parts(std::size_t parts, const Work& work) noexcept {
  in_parts(
      parts, [](const void* with, std::size_t i) noexcept { (*static_cast<const Work*>(with))(i); },
      &work);
}

}  // namespace tensorbus::platform
