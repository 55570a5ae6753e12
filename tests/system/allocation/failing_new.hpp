#pragma once

// For a test program of its own: its operator new fails when told to.

#include <cstddef>

namespace tensorbus::testing {

// Whose allocations: those of the thread that arms, or those of all others, which are the threads
// of participants.
enum class Whose { kMine, kService };
// Only one, or all from then on.
enum class Fails { kOnce, kFromThenOn };

// From now on, the n-th allocation (from 0) fails.
void fail_allocation(Whose whose, Fails fails, std::size_t n);
// Did one fail since?
bool allocation_failed();
// No more failures. Returns allocation_failed().
bool stop_failing();

}  // namespace tensorbus::testing
