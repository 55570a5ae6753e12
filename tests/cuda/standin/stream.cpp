#include "stream.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "call.hpp"

namespace standin {
namespace {

bool can_begin(const StreamTag& stream) {
  return !stream.queue.empty() && !stream.paused &&
         !(world().copies_held && stream.queue.front().copies) &&
         std::ranges::all_of(stream.queue.front().after, &Point::is_reached);
}

// The operation stays in the queue while it runs: the memory that it touches is still in use.
void run_first(World& all, StreamTag& stream, std::unique_lock<std::mutex>& lock) {
  const auto [run, end] = std::pair(stream.queue.front().run, stream.queue.front().end);
  lock.unlock();
  if (run) {
    const InOperation guard;
    run();
  }
  lock.lock();
  if (end && !all.exiting) end();
  stream.queue.pop_front();
  ++stream.completed;
  all.changed.notify_all();
}

void run_stream(const StreamRef& stream) {
  World& all = world();
  std::unique_lock lock(all.mutex);
  while (!(stream->destroyed && stream->queue.empty())) {
    if (!all.exiting && can_begin(*stream))
      run_first(all, *stream, lock);
    else
      all.changed.wait(lock);
  }
  all.streams.remove(stream);
}

// Detached: it may wait for a value that is never written. Signals are for the test's threads.
void start(const StreamRef& stream) {
  if (std::exchange(stream->started, true)) return;
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread([stream] { run_stream(stream); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The null stream waits for all other streams of its context except non-blocking ones, and they
// wait for it.
bool wait_for_each_other(const StreamTag& one, const StreamTag& other) {
  using Kind = StreamTag::Kind;
  if (one.context != other.context) return false;
  return (one.kind == Kind::kNull && other.kind == Kind::kBlocking) ||
         (one.kind == Kind::kBlocking && other.kind == Kind::kNull);
}

template <typename Condition>
StreamRef find_or_add(World& all, const StreamTag& wanted, Condition&& is_wanted) {
  const auto found = std::ranges::find_if(
      all.streams, [&](const StreamRef& stream) { return is_wanted(*stream); });
  if (found != all.streams.end()) return *found;
  return all.streams.emplace_back(std::make_shared<StreamTag>(wanted));
}

StreamRef null_stream(World& all, Context context) {
  return find_or_add(all, {.context = context, .kind = StreamTag::Kind::kNull},
                     [&](const StreamTag& stream) {
                       return stream.kind == StreamTag::Kind::kNull && stream.context == context;
                     });
}

StreamRef thread_stream(World& all, Context context) {
  const std::thread::id thread = std::this_thread::get_id();
  return find_or_add(all, {.context = context, .thread = thread}, [&](const StreamTag& stream) {
    return stream.thread == thread && stream.context == context;
  });
}

}  // namespace

bool Point::is_reached() const { return stream == nullptr || stream->completed >= operation; }

Result find_stream(World& all, Stream handle, Context context, StreamRef* stream) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= 1) {
    *stream = null_stream(all, context);
    return Result::kSuccess;
  }
  if (number == 2) {
    *stream = thread_stream(all, context);
    return Result::kSuccess;
  }
  for (const StreamRef& known : all.streams) {
    if (known.get() != handle || known->destroyed) continue;
    if (known->context != context) return Result::kInvalidContext;
    *stream = known;
    return Result::kSuccess;
  }
  return Result::kInvalidHandle;
}

void enqueue(World& all, const StreamRef& stream, Operation operation) {
  if (stream->capture != CaptureStatus::kNone) return;  // captured, and nothing replays it
  for (const StreamRef& other : all.streams)
    if (wait_for_each_other(*stream, *other)) operation.after.push_back(end_of(other));
  stream->queue.push_back(std::move(operation));
  ++stream->enqueued;
  start(stream);
  all.changed.notify_all();
}

void wait_for_streams(World& all, std::unique_lock<std::mutex>& lock, Context context) {
  std::vector<Point> ends;
  for (const StreamRef& stream : all.streams)
    if (stream->context == context) ends.push_back(end_of(stream));
  for (const Point& end : ends)
    while (!end.is_reached()) all.changed.wait(lock);
}

Result refuse_capture(StreamTag& stream) {
  if (stream.capture == CaptureStatus::kNone) return Result::kSuccess;
  stream.capture = CaptureStatus::kInvalidated;
  return Result::kStreamCaptureUnsupported;
}

void require_untouched(const World& all, DevicePtr address, std::size_t bytes, const char* symbol) {
  for (const StreamRef& stream : all.streams)
    for (const Operation& operation : stream->queue)
      for (const auto& [base, size] : operation.touched)
        if (base < address + bytes && address < base + size)
          fail_test(std::string(symbol) + " of memory that a stream still uses");
}

}  // namespace standin
