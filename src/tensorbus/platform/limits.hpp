#pragma once

#include <sys/resource.h>

#include <new>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {

// The type of RLIMIT_...: an enumeration with glibc, int with musl.
using ResourceLimit = decltype(RLIMIT_NOFILE);

// The purpose of a system call. It decides which limit an errno stands for.
enum class During { kAnything, kDirectory, kFile, kThread, kMapping, kPrivateMapping, kPolling };

// Returns the limit that a failed system call met: its name, its value, and the remedy. Empty for
// an errno that no limit causes. Only this function maps errors to limits.
[[gnu::cold]] std::optional<std::string> limit_behind(int error_number,
                                                      During during = During::kAnything);

// Throws Error(kOutOfMemory) that names the limit, Error(kPermission) for a directory that must not
// be written to, Error(kSystem) for everything else.
[[noreturn]] void throw_system(const std::string& what, int error_number, During during);
using tensorbus::throw_system;

// As throw_system(), for a system call that Tensorbus needs: throws Error(kUnsupported) if the
// kernel lacks it or a sandbox refuses it.
[[noreturn]] void throw_system_of_needed(const std::string& call, int error_number);

// Throws Error(kOutOfMemory) in place of std::bad_alloc. Allocates nothing: the Error is made at
// program start.
[[noreturn]] void throw_no_memory();

// Calls `call`; throws Error(kOutOfMemory) in place of std::bad_alloc.
template <typename Call>
decltype(auto) with_memory_errors(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    throw_no_memory();
  }
}

}  // namespace tensorbus::platform
