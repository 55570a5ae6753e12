#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// The lineage of a process: it, and every child that was forked from it and has not called exec. It
// is a pipe; they have its end for writing, and nobody ever writes.

// Another descriptor of the end for reading, of this process's lineage: hung up when the last of
// them is gone. Throws Error that names the limit.
Fd own_lineage();

// What a peer handed over: can it be the lineage of a process?
bool is_lineage(int fd) noexcept;

// Is nobody of it left? Asks the kernel.
bool lineage_ended(int fd) noexcept;

namespace internal {
// In a child, first thing. One that has inherited nothing of others leaves the lineage.
void lineage_after_fork(bool inherited) noexcept;
}  // namespace internal

}  // namespace tensorbus::platform
