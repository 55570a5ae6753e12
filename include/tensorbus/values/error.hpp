#pragma once

#include <stdexcept>
#include <string>

// Visible to all libraries of a program: one library can catch an exception that another throws.
#if defined(TENSORBUS_BUILD)
#define TENSORBUS_SEEN
#else
#define TENSORBUS_SEEN __attribute__((visibility("default")))
#endif

namespace tensorbus::inline v0 {

// Why a call failed. Expected outcomes of the data path (no sample yet, a full queue) are values,
// not errors; see Outcome.
enum class Code {
  kInvalidArgument,  // the caller's mistake
  kUnsupported,      // a tensor or option that cannot be sent
  kOutOfMemory,      // a limit was reached; the message names it
  kClosed,           // the object, or the other side, is closed
  kTimeout,          // the timeout was too short
  kProtocol,         // a peer sent something invalid
  kVersionMismatch,  // a peer, or the loaded library, has another version
  kPermission,    // a domain directory or a peer belongs to another user, or must not be written to
  kForked,        // made before fork() and used in the child
  kSystem,        // a system call failed
  kTypeMismatch,  // publisher and subscriber of a topic have different message types
  kService,       // a service's callback failed; see ServiceError
};

// The exception of this library. Its text describes what was expected, what was found and what to
// do.
//
//   try {
//     tensorbus::Publisher publisher("");
//   } catch (const tensorbus::Error& error) {
//     std::cerr << error.what() << '\n';  // error.code() is Code::kInvalidArgument
//   }
class TENSORBUS_SEEN Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

}  // namespace tensorbus::inline v0
