#include "call.hpp"
#include "stream.hpp"

// Events, which mark a point in a stream. One that was never recorded is complete.
namespace standin {
namespace {

template <typename Body>
Result call_on_event(const char* symbol, Event event, Body&& body) {
  return call(symbol, [&](World& all) {
    if (!all.events.contains(event)) return Result::kInvalidHandle;
    return body(all);
  });
}

}  // namespace

extern "C" Result cuEventCreate(Event* event, unsigned flags) {
  return call_in_context(__func__, [&](World& all, Context context) {
    if ((flags & ~kEventDisableTiming) != 0) return Result::kInvalidValue;
    *event = new EventTag{.context = context};
    all.events.insert(*event);
    return Result::kSuccess;
  });
}

extern "C" Result cuEventDestroy_v2(Event event) {
  return call(__func__, [&](World& all) {
    if (!all.events.contains(event)) return Result::kInvalidHandle;
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
      enqueue(all, stream, {});
      event->recorded = end_of(stream);
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuEventQuery(Event event) {
  return call_on_event(__func__, event, [&](World&) {
    return event->recorded.is_reached() ? Result::kSuccess : Result::kNotReady;
  });
}

extern "C" Result cuStreamWaitEvent(Stream handle, Event event, unsigned flags) {
  return call_on_event(__func__, event, [&](World& all) {
    if (flags != 0) return Result::kInvalidValue;
    return on_stream(all, handle, [&](const StreamRef& stream) {
      enqueue(all, stream, {.run = {}, .after = {event->recorded}});
      return Result::kSuccess;
    });
  });
}

}  // namespace standin
