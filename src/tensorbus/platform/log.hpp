#pragma once

#include <cstdint>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Log lines report events of the event loop that no call can return. Signal handlers and check()
// write to stderr instead.

enum class LogLevel : std::int32_t { kInfo = 0, kWarning = 1, kError = 2 };  // values of the C API

// Called in any thread, with no lock of the library held. Must return soon and throw nothing.
using LogSink = void (*)(void* context, std::int32_t level, const char* text);

// Sends all later lines to `sink`. Null (the default): lines go to stderr, except those of kInfo.
// Another thread may still be calling the previous sink. A forked child keeps its parent's sink.
TENSORBUS_API void set_log(LogSink sink, void* context);

// Writes a line; `text` has no line end.
void log(LogLevel level, const char* text) noexcept;

// Writes a line to stderr, even if a sink is set.
TENSORBUS_API void log_to_stderr(const char* text) noexcept;

}  // namespace tensorbus::platform
