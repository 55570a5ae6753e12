#include <algorithm>

#include "call.hpp"
#include "capture.hpp"
#include "stream.hpp"

// Streams as the driver offers them, and a test's functions for them.
namespace standin {
namespace {

// Returns a stream of the current context; aborts if the test gives none.
StreamRef stream_for_test(World& all, Stream handle) {
  StreamRef stream;
  const Context context = current_context();
  if (context == nullptr || find_stream(all, handle, context, &stream) != Result::kSuccess)
    fail_test("not a stream of the current context");
  return stream;
}

void set_paused(Stream handle, bool paused) {
  const std::lock_guard lock(world().mutex);
  stream_for_test(world(), handle)->paused = paused;
  world().changed.notify_all();
}

}  // namespace

extern "C" Result cuStreamCreate(Stream* stream, unsigned flags) {
  return call_in_context(__func__, [&](World& all, Context context) {
    if ((flags & ~kStreamNonBlocking) != 0) return Result::kInvalidValue;
    const auto kind = flags == 0 ? StreamTag::Kind::kBlocking : StreamTag::Kind::kNonBlocking;
    all.streams.push_back(std::make_shared<StreamTag>(StreamTag{.context = context, .kind = kind}));
    *stream = all.streams.back().get();
    return Result::kSuccess;
  });
}

extern "C" Result cuStreamDestroy_v2(Stream handle) {
  return call(__func__, [&](World& all) {
    if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return Result::kInvalidHandle;
    return on_stream(all, handle, [&](const StreamRef& stream) {
      stream->destroyed = true;
      if (stream->started)
        all.changed.notify_all();
      else
        all.streams.remove(StreamRef(stream));
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuStreamSynchronize(Stream handle) {
  if (const Result refused = admit(__func__); refused != Result::kSuccess) return refused;
  std::unique_lock lock(world().mutex);
  return on_stream(world(), handle, [&](const StreamRef& stream) {
    const Result refused = refuse_capture(*stream);
    if (refused != Result::kSuccess) return refused;
    const Point end = end_of(stream);
    while (!end.is_reached()) world().changed.wait(lock);
    return Result::kSuccess;
  });
}

extern "C" Result cuStreamQuery(Stream handle) {
  return call(__func__, [&](World& all) {
    return on_stream(all, handle, [](const StreamRef& stream) {
      const Result refused = refuse_capture(*stream);
      if (refused != Result::kSuccess) return refused;
      return end_of(stream).is_reached() ? Result::kSuccess : Result::kNotReady;
    });
  });
}

extern "C" Result cuStreamIsCapturing(Stream handle, CaptureStatus* status) {
  return call(__func__, [&](World& all) {
    return on_stream(all, handle, [&](const StreamRef& stream) {
      *status = stream->capture;
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuLaunchHostFunc(Stream handle, HostFunction function, void* argument) {
  return call(__func__, [&](World& all) {
    if (function == nullptr) return Result::kInvalidValue;
    return on_stream(all, handle, [&](const StreamRef& stream) {
      enqueue(all, stream, {.run = [=] { function(argument); }});
      return Result::kSuccess;
    });
  });
}

extern "C" STANDIN_EXPORT void standin_pause(Stream stream) { set_paused(stream, true); }
extern "C" STANDIN_EXPORT void standin_resume(Stream stream) { set_paused(stream, false); }

extern "C" STANDIN_EXPORT void standin_hold_copies(bool held) {
  const std::lock_guard lock(world().mutex);
  world().copies_held = held;
  world().changed.notify_all();
}

extern "C" STANDIN_EXPORT void standin_finish() {
  std::unique_lock lock(world().mutex);
  world().changed.wait(lock, [] {
    return std::ranges::all_of(world().streams, [](const StreamRef& stream) {
      return stream->completed == stream->enqueued;
    });
  });
}

extern "C" STANDIN_EXPORT void standin_launch(Stream handle, void (*kernel)(void*),
                                              void* argument) {
  const std::lock_guard lock(world().mutex);
  enqueue(world(), stream_for_test(world(), handle), {.run = [=] { kernel(argument); }});
}

extern "C" STANDIN_EXPORT void standin_capture(Stream handle, bool capturing) {
  const std::lock_guard lock(world().mutex);
  CaptureStatus& status = stream_for_test(world(), handle)->capture;
  const bool captured = status != CaptureStatus::kNone;
  if (captured != capturing) count_captures(capturing ? 1 : -1);
  status = capturing ? CaptureStatus::kActive : CaptureStatus::kNone;
}

}  // namespace standin
