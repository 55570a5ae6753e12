#pragma once

#include <mutex>

#include "exports.hpp"
#include "world.hpp"

// How every function begins: it is counted, fails if a test wants that, and is refused before
// cuInit, in a child forked after it, and in code that a stream runs.
namespace standin {

Result admit(const char* symbol);
// Is it a call that this thread may not make while streams are captured?
bool is_forbidden_by_captures(const char* symbol);
// For the few that need no cuInit.
Result admit_uninitialized(const char* symbol);
// Of a process that had called cuInit: its threads may hold any lock here, and will not return it.
bool is_forked_child();
// From here on this process, and none that it forks, may call.
void mark_initialized();

// While one lives, its thread runs a stream's operation and may not call the driver.
class InOperation {
 public:
  InOperation();
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;
  ~InOperation();
};

// `body(world)`, with the world locked.
template <typename Body>
Result call(const char* symbol, Body&& body) {
  if (const Result refused = admit(symbol); refused != Result::kSuccess) return refused;
  if (is_forbidden_by_captures(symbol)) return Result::kStreamCaptureUnsupported;
  const std::lock_guard lock(world().mutex);
  return body(world());
}

// `body(world)`, where the devices have that feature.
template <typename Body>
Result call_for(const char* feature, const char* symbol, Body&& body) {
  return call(symbol, [&](World& all) {
    return settings().has(feature) ? body(all) : Result::kNotSupported;
  });
}

// `body(world, context)`, with the context that is current.
template <typename Body>
Result call_in_context(const char* symbol, Body&& body) {
  return call(symbol, [&](World& all) {
    const Context context = current_context();
    return context != nullptr ? body(all, context) : Result::kInvalidContext;
  });
}

}  // namespace standin
