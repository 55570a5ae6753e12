#pragma once

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {

// What a system call was for: it decides which limit stands behind an errno.
enum class During { kAnything, kDirectory, kFile, kThread, kMapping, kPrivateMapping };

// The limit that a failed system call met: its name, how large it is now, and what to do. Empty for
// an errno that tells of none. The one place that knows.
std::optional<std::string> limit_behind(int error_number, During during = During::kAnything);

// Throws Error(kOutOfMemory) that names the limit, Error(kPermission) for a directory that must not
// be written to, Error(kSystem) for everything else.
[[noreturn]] void throw_system(const std::string& what, int error_number, During during);
using tensorbus::throw_system;

// Throws Error(kOutOfMemory) for a std::bad_alloc. It takes no memory: the Error was made when the
// program started.
[[noreturn]] void throw_no_memory();

// Has `call` throw an Error where it would throw std::bad_alloc.
template <typename Call>
decltype(auto) with_memory_errors(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    throw_no_memory();
  }
}

}  // namespace tensorbus::platform
