#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tensorbus::cli {

// Adds the commands of the Python package to the help and to completion, after all others.
void add_python_commands(CLI::App& all);

// Returns whether a command line begins with the name of one: "top", or "topic" and "pub".
bool is_python_command(const std::string& first, const std::string& second);

// Replaces this process by the program of the Python package, `tensorbus-python`. Throws Exit if
// that is not installed.
//
//   arguments   the whole command line after `tensorbus`; a null pointer ends it
[[noreturn]] void run_python_command(const char* const* arguments);

}  // namespace tensorbus::cli
