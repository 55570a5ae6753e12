#pragma once

#include <stdexcept>
#include <string>

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Why a call failed. Expected outcomes of the data path (nothing there yet, a full queue) are
// values, not errors: Outcome, or an empty optional.
enum class Code {
  kInvalidArgument,  // the caller's mistake
  kUnsupported,      // a tensor or option that cannot travel
  kOutOfMemory,      // a limit was reached; the message names it
  kClosed,           // the object, or the other side, is closed
  kTimeout,          // the time given was not enough
  kProtocol,         // a peer sent something that is not the protocol
  kVersionMismatch,  // a peer speaks another version
  kPermission,       // a domain directory or a peer is somebody else's, or not to be written to
  kForked,           // the object was made before fork() and is used in the child
  kSystem,           // a system call failed
  kTypeMismatch,     // a publisher and a subscriber of a topic mean different messages
};

// The one exception of this library: what was expected, what came, what to do.
class TENSORBUS_API Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

// Throws an Error with `what` and what `error_number` (an errno value) tells: kOutOfMemory that
// names the limit if one was met, else kSystem.
[[noreturn]] TENSORBUS_API void throw_system(const std::string& what, int error_number);

}  // namespace tensorbus
