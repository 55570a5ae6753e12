#include <array>
#include <cstdio>
#include <cstdlib>

#include "call.hpp"

// Primary contexts, and each thread's stack of them.
namespace standin {
namespace {

// Without a destructor: a thread may call until its very end.
struct ContextStack {
  std::array<Context, 64> contexts{};
  std::size_t size = 0;
};
thread_local ContextStack stack;

bool is_alive(const World& all, Context context) {
  for (const auto& known : all.contexts)
    if (known.get() == context) return known->retained > 0;
  return false;
}

}  // namespace

const Settings& settings() {
  static const auto* const read = new Settings(read_settings());
  return *read;
}

World& world() {
  static World* const all = new World;
  return *all;
}

void fail_test(const std::string& what) {
  std::fprintf(stderr, "stand-in for libcuda: %s\n", what.c_str());
  std::abort();
}

Context current_context() {
  if (stack.size == 0) return nullptr;
  const Context context = stack.contexts[stack.size - 1];
  return context->retained > 0 ? context : nullptr;
}

extern "C" Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return call(__func__, [&](World& all) {
    if (!is_device(device)) return Result::kInvalidDevice;
    *context = all.contexts[static_cast<std::size_t>(device)].get();
    ++(*context)->retained;
    return Result::kSuccess;
  });
}

extern "C" Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return call(__func__, [&](World& all) {
    if (!is_device(device)) return Result::kInvalidDevice;
    ContextTag& context = *all.contexts[static_cast<std::size_t>(device)];
    if (context.retained == 0) return Result::kInvalidContext;
    --context.retained;
    return Result::kSuccess;
  });
}

extern "C" Result cuCtxPushCurrent_v2(Context context) {
  return call(__func__, [&](World& all) {
    if (!is_alive(all, context)) return Result::kInvalidContext;
    if (stack.size == stack.contexts.size()) fail_test("contexts are pushed and never popped");
    stack.contexts[stack.size++] = context;
    return Result::kSuccess;
  });
}

extern "C" Result cuCtxPopCurrent_v2(Context* context) {
  return call(__func__, [&](World&) {
    if (stack.size == 0) return Result::kInvalidContext;
    --stack.size;
    if (context != nullptr) *context = stack.contexts[stack.size];
    return Result::kSuccess;
  });
}

}  // namespace standin
