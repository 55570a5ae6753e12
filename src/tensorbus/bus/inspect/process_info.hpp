#pragma once

#include <string>

namespace tensorbus::bus {

// Returns the name of a process's program: the script of an interpreter ("train.py", the module of
// `python -m`), else the file name of the program. `pid`: a number or "self". Empty if there is no
// process, or if it is not visible.
std::string process_name(const std::string& pid);

// Returns the reason why a process does not reply, to end "the process ...": "is stopped", "is
// being traced", "has ended", "waits for the kernel"; else empty.
std::string process_state(const std::string& pid);

}  // namespace tensorbus::bus
