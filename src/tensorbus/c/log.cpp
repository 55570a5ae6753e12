#include "tensorbus/platform/log.hpp"

#include <tensorbus/c/log.h>

#include "tensorbus/c/guard.hpp"

using tensorbus::platform::LogLevel;

static_assert(static_cast<std::int32_t>(LogLevel::kInfo) == TB_LOG_INFO &&
              static_cast<std::int32_t>(LogLevel::kWarning) == TB_LOG_WARNING &&
              static_cast<std::int32_t>(LogLevel::kError) == TB_LOG_ERROR);

tb_status tb_set_log(tb_log log, void* context) {
  return tensorbus::c::done([&] { tensorbus::platform::set_log(log, context); });
}
