#pragma once

#include <string>
#include <tensorbus/values/value.hpp>

#include "tensorbus/cli/commands.hpp"

namespace tensorbus::cli {

// How a command asks another one that runs, by the service that it offers.
struct RunningCommand {
  const char* command = "";  // of the other process, for messages
  const char* field = "";    // that each reply of it has
  std::string name;          // of its service
};

// Returns the reply of the only process that offers the service. Throws Exit if there is none or
// more than one, and if the reply is another command's; and what Client throws.
Value ask(const RunningCommand& running, const Asking& asking, Value::Map request);

}  // namespace tensorbus::cli
