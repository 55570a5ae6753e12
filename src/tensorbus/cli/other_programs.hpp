#pragma once

namespace tensorbus::cli {

// Replaces this process by the program `tensorbus-NAME`: the one beside this program, else one of
// $PATH. Throws Exit if there is none, or it cannot be run.
//
//   arguments   NAME and its arguments; a null pointer ends them
[[noreturn]] void run_other_program(const char* const* arguments);

}  // namespace tensorbus::cli
