#include <chrono>
#include <thread>

#include "call.hpp"
#include "ipc_event.hpp"
#include "stream.hpp"

// Events, which mark a point in a stream. One that was never recorded is complete.
namespace standin {
namespace {

using namespace std::chrono_literals;

template <typename Body>
Result call_on_event(const char* symbol, Event event, Body&& body) {
  return call(symbol, [&](World& all) {
    if (!all.events.contains(event)) return Result::kInvalidHandle;
    if (event->fd < 0 && event->shared != nullptr && event->shared->destroyed)
      fail_test(std::string(symbol) + " of an event that the process which made it has destroyed");
    return body(all);
  });
}

void wait_until_completed(const SharedEvent& event, std::uint64_t record) {
  const auto waits = [&] {
    const std::lock_guard lock(world().mutex);
    return !world().exiting && event.completed.load(std::memory_order_acquire) < record;
  };
  while (waits()) std::this_thread::sleep_for(50us);
}

Operation completion_of(SharedEvent* event) {
  const std::uint64_t record = event->recorded.load() + 1;
  return {.run = [=] { event->completed.store(record, std::memory_order_release); }};
}

}  // namespace

extern "C" Result cuEventCreate(Event* event, unsigned flags) {
  return call_in_context(__func__, [&](World& all, Context context) {
    const bool shared = (flags & kEventInterprocess) != 0;
    if ((flags & ~(kEventDisableTiming | kEventInterprocess)) != 0 ||
        (shared && (flags & kEventDisableTiming) == 0))
      return Result::kInvalidValue;
    auto made = std::make_unique<EventTag>(EventTag{.context = context});
    if (shared && !share_event(*made)) return Result::kOperatingSystem;
    *event = made.release();
    all.events.insert(*event);
    return Result::kSuccess;
  });
}

extern "C" Result cuEventDestroy_v2(Event event) {
  return call(__func__, [&](World& all) {
    if (!all.events.contains(event)) return Result::kInvalidHandle;
    if (event->fd >= 0) forget_shared(*event);
    all.events.erase(event);
    delete event;
    return Result::kSuccess;
  });
}

extern "C" Result cuEventRecord(Event event, Stream handle) {
  return call_on_event(__func__, event, [&](World& all) {
    return on_stream(all, handle, [&](const StreamRef& stream) {
      const Result refused = refuse_capture(*stream);
      if (refused != Result::kSuccess) return refused;
      if (event->context != stream->context) return Result::kInvalidHandle;
      if (event->shared == nullptr) {
        enqueue(all, stream, {});
        event->recorded = end_of(stream);
      } else {
        enqueue(all, stream, completion_of(event->shared));
        ++event->shared->recorded;
      }
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuEventQuery(Event event) {
  return call_on_event(__func__, event, [&](World&) {
    const bool done = event->shared != nullptr ? event->shared->completed >= event->shared->recorded
                                               : event->recorded.is_reached();
    return done ? Result::kSuccess : Result::kNotReady;
  });
}

extern "C" Result cuStreamWaitEvent(Stream handle, Event event, unsigned flags) {
  return call_on_event(__func__, event, [&](World& all) {
    if (flags != 0) return Result::kInvalidValue;
    return on_stream(all, handle, [&](const StreamRef& stream) {
      if (const SharedEvent* const shared = event->shared)
        enqueue(all, stream, {.run = [shared, record = shared->recorded.load()] {
                  wait_until_completed(*shared, record);
                }});
      else
        enqueue(all, stream, {.run = {}, .after = {event->recorded}});
      return Result::kSuccess;
    });
  });
}

}  // namespace standin
