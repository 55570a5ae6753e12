#pragma once

#include <string>

namespace tensorbus::cli {

// Replaces this process by another program: the one beside this program, else one of $PATH. Returns
// if there is none. Throws Exit if it cannot be run.
//
//   arguments   of the program, without its own name; a null pointer ends them
void run_if_there(const std::string& program, const char* const* arguments);

// Replaces this process by the program `tensorbus-NAME`. Throws Exit if there is none.
//
//   arguments   NAME and its arguments; a null pointer ends them
[[noreturn]] void run_other_program(const char* const* arguments);

}  // namespace tensorbus::cli
