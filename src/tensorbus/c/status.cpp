#include <array>
#include <cstdio>

#include "tensorbus/c/guard.hpp"

namespace tensorbus::c {
namespace {

thread_local std::array<char, 2048> last_message{};

constexpr tb_status status_of(Code code) noexcept {
  switch (code) {
    case Code::kInvalidArgument:
      return TB_ERROR_INVALID_ARGUMENT;
    case Code::kUnsupported:
      return TB_ERROR_UNSUPPORTED;
    case Code::kOutOfMemory:
      return TB_ERROR_OUT_OF_MEMORY;
    case Code::kClosed:
      return TB_ERROR_CLOSED;
    case Code::kTimeout:
      return TB_ERROR_TIMEOUT;
    case Code::kProtocol:
      return TB_ERROR_PROTOCOL;
    case Code::kVersionMismatch:
      return TB_ERROR_VERSION_MISMATCH;
    case Code::kPermission:
      return TB_ERROR_PERMISSION;
    case Code::kForked:
      return TB_ERROR_FORKED;
    case Code::kSystem:
      return TB_ERROR_SYSTEM;
    case Code::kTypeMismatch:
      return TB_ERROR_TYPE_MISMATCH;
    case Code::kService:  // only in the C++ headers
      break;
  }
  return TB_ERROR_SYSTEM;
}

}  // namespace

tb_status failed(Code code, const char* why) noexcept {
  std::snprintf(last_message.data(), last_message.size(), "%s", why);
  return status_of(code);
}

}  // namespace tensorbus::c

const char* tb_error_message() { return tensorbus::c::last_message.data(); }

const char* tb_status_name(tb_status status) {
  switch (status) {
#define TB_NAMED(name) \
  case name:           \
    return #name
    TB_NAMED(TB_OK);
    TB_NAMED(TB_TIMED_OUT);
    TB_NAMED(TB_INTERRUPTED);
    TB_NAMED(TB_CLOSED);
    TB_NAMED(TB_HOLD_LIMIT);
    TB_NAMED(TB_ERROR_INVALID_ARGUMENT);
    TB_NAMED(TB_ERROR_UNSUPPORTED);
    TB_NAMED(TB_ERROR_OUT_OF_MEMORY);
    TB_NAMED(TB_ERROR_CLOSED);
    TB_NAMED(TB_ERROR_TIMEOUT);
    TB_NAMED(TB_ERROR_PROTOCOL);
    TB_NAMED(TB_ERROR_VERSION_MISMATCH);
    TB_NAMED(TB_ERROR_PERMISSION);
    TB_NAMED(TB_ERROR_FORKED);
    TB_NAMED(TB_ERROR_SYSTEM);
    TB_NAMED(TB_ERROR_TYPE_MISMATCH);
#undef TB_NAMED
    default:
      return "";
  }
}
