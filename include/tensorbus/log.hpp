#pragma once

#include <tensorbus/c/log.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <tensorbus/internal/call.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// The levels of the library's log lines. Later versions may add levels.
enum class LogLevel : std::int32_t {
  kInfo = TB_LOG_INFO,        // normal with these options, e.g. dropped samples; not on stderr
  kWarning = TB_LOG_WARNING,  // a limit was reached and the library tries again; a peer was refused
  kError = TB_LOG_ERROR,      // the library gave something up, e.g. a connection to a peer
};

using Log = std::function<void(LogLevel level, std::string_view text)>;

// Sends the log lines to `log` instead of stderr, for the whole process. An empty function restores
// stderr. Any thread may call `log`, usually the library's own thread, which does nothing else
// during the call. So `log` must return soon, throw nothing, and not use the bus. It is never
// destroyed, because another thread may still be calling it. A forked child keeps its parent's
// function.
//
//   tensorbus::set_log([](tensorbus::LogLevel, std::string_view text) {
//     std::clog << "bus: " << text << '\n';
//   });
inline void set_log(Log log) {
  if (!log) return internal::require_done(tb_set_log(nullptr, nullptr));
  auto kept = std::make_unique<Log>(std::move(log));
  internal::require_done(tb_set_log(
      [](void* called, std::int32_t level, const char* text) noexcept {
        (*static_cast<const Log*>(called))(static_cast<LogLevel>(level), text);
      },
      kept.get()));
  (void)kept.release();
}

}  // namespace tensorbus::inline v0
