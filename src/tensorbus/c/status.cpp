#include <array>
#include <cstdio>

#include "tensorbus/c/guard.hpp"

namespace tensorbus::c {
namespace {

thread_local std::array<char, 2048> last_message{};

// The errors have the same order in C, from -1 down. Only the C++ headers throw kService.
constexpr tb_status status_of(Code code) noexcept {
  return code == Code::kService ? TB_ERROR_SYSTEM : -1 - static_cast<tb_status>(code);
}
static_assert(status_of(Code::kTypeMismatch) == TB_ERROR_TYPE_MISMATCH);

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
    TB_NAMED(TB_SHUT_DOWN);
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
