#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <tensorbus/error.hpp>
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
  switch (code) {
    case Code::kInvalidArgument:
      return "InvalidArgument";
    case Code::kUnsupported:
      return "Unsupported";
    case Code::kOutOfMemory:
      return "OutOfMemory";
    case Code::kClosed:
      return "Closed";
    case Code::kTimeout:
      return "Timeout";
    case Code::kProtocol:
      return "ProtocolError";
    case Code::kVersionMismatch:
      return "VersionMismatch";
    case Code::kPermission:
      return "AccessDenied";
    case Code::kForked:
      return "Forked";
    case Code::kSystem:
      return "SystemCallError";
    case Code::kTypeMismatch:
      return "TypeMismatch";
    case Code::kService:
      return "ServiceError";
  }
  return "Error";
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
    return {"unknown exception", "it is no std::exception", "unknown exception\n"};
  }
}

}  // namespace internal
}  // namespace tensorbus::inline v0
