#pragma once

#include <string>
#include <tensorbus/error.hpp>  // as programs see it

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Throws an Error with `what` and what `error_number` (an errno value) tells: kOutOfMemory that
// names the limit if one was met, else kSystem.
[[noreturn]] TENSORBUS_API void throw_system(const std::string& what, int error_number);

}  // namespace tensorbus
