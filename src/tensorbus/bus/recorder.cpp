#include "tensorbus/bus/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "tensorbus/bus/record/record_buffer.hpp"
#include "tensorbus/bus/record/record_progress.hpp"
#include "tensorbus/bus/record_collector.hpp"
#include "tensorbus/platform/background_thread.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/tensor/recording/recording_writer.hpp"
#include "tensorbus/version.hpp"

namespace tensorbus {
namespace {

using bus::RecordedSample;

const RecorderOptions& checked_options(const RecorderOptions& options) {
  if (options.topics.empty() && !options.all && options.pattern.empty())
    throw Error(Code::kInvalidArgument,
                "topics: name at least one, or give a regular expression, or record all");
  if (options.buffer_bytes == 0)
    throw Error(Code::kInvalidArgument, "buffer: 0 bytes: nothing could wait to be written");
  return options;
}

recording::TextMap about_recorder(const RecorderOptions& options, const Participant& participant) {
  char host[256] = "";
  (void)::gethostname(host, sizeof host - 1);
  return {{"version", kVersion},
          {"format", "1"},
          {"host", host},
          {"domain", participant.domain_path()},
          {"started", std::to_string(platform::wall_clock_ns())},
          {"reliable", options.reliable ? "true" : "false"}};
}

}  // namespace

struct Recorder::State {
  static constexpr const char* kMovedFrom = "this recorder was moved from";

  explicit State(const RecorderOptions& options)
      : participant({.domain = checked_options(options).domain}),
        buffer(options.buffer_bytes),
        collector({options.topics, options.all, options.pattern, options.reliable, options.depth},
                  participant, buffer),
        writer(options.path, options.overwrite, about_recorder(options, participant)) {
    bytes = writer.bytes();
    start("recorder: starting the thread that writes", [this] { write_all(); });
    try {
      start("recorder: starting the thread that receives", [this] { collect(); });
    } catch (...) {
      buffer.close();
      progress->wait_for_threads();
      throw;
    }
  }
  ~State() { end(); }

  void start(const std::string& what, std::function<void()> body) {
    progress->begin_thread();
    const auto run = [body = std::move(body), shared = progress] {
      try {
        platform::with_memory_errors(body);
      } catch (const Error& error) {
        shared->fail(error);
      }
      shared->end_thread();  // after it the recorder may be gone
    };
    try {
      platform::start_background_thread(what, run);
    } catch (...) {
      progress->end_thread();
      throw;
    }
  }

  void collect() {
    try {
      platform::with_memory_errors([this] { collector.run(); });
    } catch (const Error& error) {
      progress->fail(error);
    }
    buffer.close();
  }

  void write_all() {
    try {
      platform::with_memory_errors([this] { write_samples(); });
    } catch (const Error& error) {
      progress->fail(error);
      dropped += buffer.stop();
    }
    writer.finish();
    bytes = writer.bytes();
  }

  void write_samples() {
    for (auto samples = buffer.take(); !samples.empty(); samples = buffer.take()) {
      std::uint64_t held = 0;
      const std::uint64_t before = writer.messages();
      try {
        for (RecordedSample& one : samples) {
          held += one.bytes;
          stage(one);
        }
        writer.commit();
      } catch (...) {
        note_written();
        const auto lost = std::ranges::count(samples, true, &RecordedSample::has_sample);
        dropped += static_cast<std::uint64_t>(lost) - (writer.messages() - before);
        throw;
      }
      note_written();
      samples.clear();  // their leases go back
      buffer.release(held);
    }
  }

  void stage(const RecordedSample& one) {
    bus::RecordedPublisher& publisher = *one.publisher;
    if (publisher.channel == 0)
      publisher.channel =
          writer.add_channel(publisher.topic, publisher.definition, publisher.metadata);
    if (one.lost != 0) writer.add_lost({publisher.channel, one.first_lost, one.lost}, one.log_time);
    if (one.has_sample) writer.add_message(outgoing(one));
  }

  void note_written() noexcept {
    messages = writer.messages();
    bytes = writer.bytes();
  }

  void end() noexcept {
    collector.end();
    progress->wait_for_threads();
  }

  const Participant participant;
  bus::RecordBuffer buffer;
  bus::RecordCollector collector;
  recording::RecordingWriter writer;  // of the thread that writes
  const std::shared_ptr<bus::RecordProgress> progress = std::make_shared<bus::RecordProgress>();
  std::atomic<std::uint64_t> messages = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::uint64_t> dropped = 0;  // taken from the buffer, or left there, and not written
  std::atomic<bool> closed = false;
};

Recorder::Recorder(const RecorderOptions& options) {
  platform::with_memory_errors([&] { state_.emplace(options); });
}
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&&) noexcept = default;
Recorder::~Recorder() = default;

Outcome Recorder::wait(const platform::StopCondition& stop) {
  bus::RecordProgress& progress = *state_->progress;
  return stop.wait([&] { return progress.has_failed(); },
                   [&](std::chrono::nanoseconds most) { return progress.park_until_failed(most); });
}

RecorderStats Recorder::stats() const {
  const State& state = *state_;
  RecorderStats stats{.messages = state.messages,
                      .bytes = state.bytes,
                      .lost = state.collector.lost() + state.dropped,
                      .unwritable = state.collector.unwritable(),
                      .buffered_bytes = state.buffer.bytes(),
                      .topics = state.collector.topics()};
  if (const auto failure = state.progress->failure()) stats.error = failure->what();
  return stats;
}

void Recorder::close() {
  State& state = *state_;
  state.end();
  if (state.closed.exchange(true)) return;
  if (const auto failure = state.progress->failure()) throw Error(*failure);
}

}  // namespace tensorbus
