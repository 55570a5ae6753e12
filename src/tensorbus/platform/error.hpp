#pragma once

#include <string>
#include <tensorbus/values/error.hpp>  // as programs see it

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Throws an Error with the text `what` and the meaning of `error_number` (an errno value). The code
// is kOutOfMemory, and the text names the limit, if a limit was met; else the code is kSystem.
[[noreturn]] TENSORBUS_API void throw_system(const std::string& what, int error_number);

}  // namespace tensorbus
