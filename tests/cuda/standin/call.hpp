#pragma once

#include <mutex>

#include "exports.hpp"
#include "world.hpp"

// Every function begins with one of these: it counts the call, fails it if a test wants that, and
// refuses it before cuInit, in a child forked after cuInit, and in code that a stream runs.
namespace standin {

Result admit(const char* symbol);
// Returns true for a call that this thread may not make while streams are captured.
bool is_forbidden_by_captures(const char* symbol);
// For the few functions that need no cuInit.
Result admit_uninitialized(const char* symbol);
// Returns true in a child of a process that had called cuInit: threads of the parent may hold any
// lock here, and never release it.
bool is_forked_child();
// From now on this process may call, and no child that it forks.
void mark_initialized();

// While one lives, its thread runs a stream's operation and may not call the driver.
class InOperation {
 public:
  InOperation();
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;
  ~InOperation();
};

// Calls `body(world)` with the world locked.
template <typename Body>
Result call(const char* symbol, Body&& body) {
  if (const Result refused = admit(symbol); refused != Result::kSuccess) return refused;
  if (is_forbidden_by_captures(symbol)) return Result::kStreamCaptureUnsupported;
  const std::lock_guard lock(world().mutex);
  return body(world());
}

// Calls `body(world)` if the devices have this feature.
template <typename Body>
Result call_for(const char* feature, const char* symbol, Body&& body) {
  return call(symbol, [&](World& all) {
    return settings().has(feature) ? body(all) : Result::kNotSupported;
  });
}

// Calls `body(world, context)` with the current context.
template <typename Body>
Result call_in_context(const char* symbol, Body&& body) {
  return call(symbol, [&](World& all) {
    const Context context = current_context();
    return context != nullptr ? body(all, context) : Result::kInvalidContext;
  });
}

}  // namespace standin
