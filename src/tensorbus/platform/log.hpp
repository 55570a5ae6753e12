#pragma once

#include <cstdint>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// What the library has to say beside the results of calls: what the event loop meets. Signal
// handlers and check() do not come here; they write to stderr.

enum class LogLevel : std::int32_t { kInfo = 0, kWarning = 1, kError = 2 };  // as in C

// Called in any thread, without a lock of ours. It returns soon, and throws nothing.
using LogSink = void (*)(void* context, std::int32_t level, const char* text);

// From now on lines go to `sink`; null: each is a line on stderr, as before the first call, but for
// those of kInfo. Another thread may still be in the one before. A forked child has what its parent
// had.
TENSORBUS_API void set_log(LogSink sink, void* context);

// Writes a line; `text` has no line end.
void log(LogLevel level, const char* text) noexcept;

// Writes it to stderr, whatever set_log() was told.
TENSORBUS_API void log_to_stderr(const char* text) noexcept;

}  // namespace tensorbus::platform
