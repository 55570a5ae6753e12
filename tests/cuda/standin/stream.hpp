#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <thread>

#include "world.hpp"

// Each stream is a thread that runs operations one after the other. Under the world's mutex.
namespace standin {

// The end of a stream's n-th operation.
struct Point {
  StreamRef stream;  // null: nothing to wait for
  std::uint64_t operation = 0;
  bool is_reached() const;
};

struct Operation {
  std::function<void()> run = {};  // with the world unlocked
  // Called with the world locked when the operation ends: a thread that sees its effects sees that
  // the operation is over.
  std::function<void()> end = {};
  std::vector<std::pair<DevicePtr, std::size_t>> touched = {};
  std::vector<Point> after = {};
  bool copies = false;
};

}  // namespace standin

struct tensorbus::device::cu::StreamTag {
  enum class Kind { kBlocking, kNonBlocking, kNull };
  Context context = nullptr;
  Kind kind = Kind::kBlocking;
  std::thread::id thread{};  // of the thread whose per-thread stream it is, or none
  std::deque<standin::Operation> queue{};
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  CaptureStatus capture = CaptureStatus::kNone;
  bool started = false;  // its thread runs
  bool paused = false;
  bool destroyed = false;
};

struct tensorbus::device::cu::EventTag {
  Context context = nullptr;
  standin::Point recorded{};
};

namespace standin {

// Finds the stream of a handle; its context must be current. The handles 0 and 1 are the context's
// null stream, 2 is the per-thread stream.
Result find_stream(World& all, Stream handle, Context context, StreamRef* stream);
// Adds the waits of the null stream's rules to `operation.after`.
void enqueue(World& all, const StreamRef& stream, Operation operation);
inline Point end_of(const StreamRef& stream) { return {stream, stream->enqueued}; }
// Waits until all queued work of a context's streams has run, as freeing memory does.
void wait_for_streams(World& all, std::unique_lock<std::mutex>& lock, Context context);
// Marks a capture as invalidated by a call that may not be part of one.
Result refuse_capture(StreamTag& stream);

// Aborts if an unfinished operation uses that memory.
void require_untouched(const World& all, DevicePtr address, std::size_t bytes, const char* symbol);
bool is_registered(Memory& memory, DevicePtr address, std::size_t bytes, Context context);

// Calls `body(stream)` for a stream of the current context.
template <typename Body>
Result on_stream(World& all, Stream handle, Body&& body) {
  const Context context = current_context();
  if (context == nullptr) return Result::kInvalidContext;
  StreamRef stream;
  const Result refused = find_stream(all, handle, context, &stream);
  return refused == Result::kSuccess ? body(stream) : refused;
}

}  // namespace standin
