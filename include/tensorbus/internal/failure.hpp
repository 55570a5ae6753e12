#pragma once

#include <cxxabi.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <tensorbus/values/error.hpp>
#include <typeinfo>

namespace tensorbus::inline v0 {
namespace internal {

// The description of an exception for a caller in another process.
struct Failure {
  std::string kind;
  std::string text;
  std::string trace;
};

// The names of the error classes in Python.
inline const char* name_of(Code code) noexcept {
  static constexpr std::array kNames{
      "InvalidArgument", "Unsupported",     "OutOfMemory",     "Closed",
      "Timeout",         "ProtocolError",   "VersionMismatch", "AccessDenied",
      "Forked",          "SystemCallError", "TypeMismatch",    "ServiceError",
  };
  static_assert(kNames.size() == static_cast<std::size_t>(Code::kService) + 1);
  const auto index = static_cast<std::size_t>(code);
  return index < kNames.size() ? kNames[index] : "Error";
}

inline std::string class_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return name_of(ours->code());
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return name ? name.get() : "std::exception";
}

// Describes the exception that is being handled.
inline Failure current_failure() {
  try {
    throw;
  } catch (const std::exception& error) {
    Failure failure{class_of(error), error.what(), {}};
    failure.trace = failure.kind + ": " + failure.text + "\n";
    try {
      std::rethrow_if_nested(error);
    } catch (...) {
      failure.trace += "  from " + current_failure().trace;
    }
    return failure;
  } catch (...) {
    return {"unknown exception", "it is not a std::exception", "unknown exception\n"};
  }
}

}  // namespace internal
}  // namespace tensorbus::inline v0
