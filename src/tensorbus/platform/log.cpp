#include "tensorbus/platform/log.hpp"

#include <atomic>
#include <cstdio>

namespace tensorbus::platform {
namespace {

// Never freed, because another thread may be about to call it. A program sets only a few.
struct Sink {
  const LogSink call;
  void* const context;
  const Sink* before = nullptr;  // keeps the older sink reachable, for the leak sanitizer
};
constinit std::atomic<const Sink*> current{nullptr};

}  // namespace

void set_log(LogSink sink, void* context) {
  auto* const fresh = new Sink{sink, context};
  fresh->before = current.load(std::memory_order_relaxed);  // only linked, not read
  // Release: pairs with log(), whose call sees the sink and the data of its context.
  while (!current.compare_exchange_weak(fresh->before, fresh, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

void log(LogLevel level, const char* text) noexcept {
  const Sink* const sink = current.load(std::memory_order_acquire);  // pairs with set_log()
  if (sink == nullptr || sink->call == nullptr) {
    if (level != LogLevel::kInfo) log_to_stderr(text);
    return;
  }
  sink->call(sink->context, static_cast<std::int32_t>(level), text);
}

void log_to_stderr(const char* text) noexcept { std::fprintf(stderr, "tensorbus: %s\n", text); }

}  // namespace tensorbus::platform
