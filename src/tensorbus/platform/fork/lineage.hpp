#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// The lineage of a process: the process, and all children forked from it that have not called exec.
// It is a pipe: all these processes hold the write end, and none of them writes.

// Returns another descriptor of the read end of this process's lineage. It hangs up when the last
// process of the lineage has ended. Throws Error that names the limit.
Fd own_lineage();

// Returns true if a descriptor from a peer can be a lineage.
bool is_lineage(int fd) noexcept;

// Returns true if no process of the lineage is left. Makes a system call.
bool lineage_ended(int fd) noexcept;

namespace internal {
// Called first in a child. A child that inherited nothing from other processes leaves the lineage.
void lineage_after_fork(bool inherited) noexcept;
}  // namespace internal

}  // namespace tensorbus::platform
