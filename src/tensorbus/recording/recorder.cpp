#include "tensorbus/recording/recorder.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/log.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"
#include "tensorbus/recording/record/record_buffer.hpp"
#include "tensorbus/recording/record/record_output.hpp"
#include "tensorbus/recording/record/record_progress.hpp"
#include "tensorbus/recording/record_collector.hpp"
#include "tensorbus/version.hpp"

namespace tensorbus::recording {
namespace {

bool splits(const RecorderOptions& options) {
  return options.split_bytes != 0 || options.split_time.count() != 0;
}

void require_topics_to_compress(const RecorderOptions& options) {
  if (options.all || !options.pattern.empty()) return;
  for (const auto& [topic, how] : options.compress_topics)
    if (std::ranges::count(options.topics, topic) == 0)
      throw Error(Code::kInvalidArgument, "compress: topic '" + topic + "' is not recorded");
}

ParticipantOptions participant_options(const RecorderOptions& options) {
  if (options.topics.empty() && !options.all && options.pattern.empty())
    throw Error(Code::kInvalidArgument,
                "topics: name at least one, or give a regular expression, or record all");
  if (options.buffer_bytes == 0)
    throw Error(Code::kInvalidArgument, "buffer: expected more than 0 bytes");
  if (options.split_time.count() < 0 || options.snapshot_time.count() < 0)
    throw Error(Code::kInvalidArgument, "split_time, snapshot_time: expected a time above 0");
  if (options.snapshot_time.count() != 0 && splits(options))
    throw Error(Code::kInvalidArgument, "snapshot: a snapshot is one file and cannot be split");
  require_topics_to_compress(options);
  return {.domain = options.domain};
}

tensor::mcap::TextMap about_recorder(const RecorderOptions& options,
                                     const bus::ParticipantRef& participant) {
  char host[256] = "";
  (void)::gethostname(host, sizeof host - 1);
  return {{"version", kVersion},
          {"format", "1"},
          {"host", host},
          {"domain", participant->domain().path()},
          {"started", std::to_string(platform::wall_clock_ns())},
          {"reliable", options.reliable ? "true" : "false"}};
}

RecordOutputOptions files_of(const RecorderOptions& options,
                             const bus::ParticipantRef& participant) {
  return {.path = options.path,
          .overwrite = options.overwrite,
          .numbered = splits(options) || options.snapshot_time.count() != 0,
          .split_bytes = options.split_bytes,
          .split_ns = static_cast<std::uint64_t>(options.split_time.count()),
          .about = about_recorder(options, participant),
          .compression = record_compression(options.compress, options.compress_topics)};
}

}  // namespace

struct Recorder::State {
  static constexpr const char* kMovedFrom = "this recorder was moved from";

  explicit State(const RecorderOptions& options)
      : participant(bus::make_participant(participant_options(options))),
        keeps(options.snapshot_time.count() != 0),
        buffer(options.buffer_bytes, static_cast<std::uint64_t>(options.snapshot_time.count())),
        collector({options.topics, options.all, options.pattern, options.reliable, options.depth},
                  participant, buffer),
        output(files_of(options, participant)) {
    output.require_no_files();
    if (!keeps) output.begin();
    note_written();
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
      shared->end_thread();  // the recorder may be gone afterwards
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
    std::size_t left = 0;
    try {
      platform::with_memory_errors([this] { keeps ? write_snapshots() : write_samples(); });
    } catch (const Error& error) {
      progress->fail(error);
      left = buffer.stop();
    }
    try {
      platform::with_memory_errors([this] { output.finish(); });
    } catch (const Error& error) {
      progress->fail(error);
    }
    note_written();
    warn_of_uncompressed();
    dropped += left + (taken - output.messages());
  }

  void warn_of_uncompressed() {
    if (output.files() == 0) return;
    for (const std::string& text : output.uncompressed())
      platform::log(platform::LogLevel::kWarning, ("recorder: " + text).c_str());
  }

  void write_samples() {
    while (!buffer.ended()) {
      auto samples = buffer.take(output.due());
      const std::uint64_t held = write(samples);
      samples.clear();  // returns their leases
      buffer.release(held);
    }
  }

  void write_snapshots() {
    while (auto kept = buffer.take_snapshot()) {
      std::vector<RecordedSample> samples;
      try {
        samples.reserve(kMaxAtOnce);  // write() takes them from here
        output.begin();
        while (!kept->empty()) {
          while (!kept->empty() && samples.size() < kMaxAtOnce) {
            samples.push_back(std::move(kept->front()));
            kept->pop_front();
          }
          const std::uint64_t held = write(samples);
          samples.clear();
          buffer.release(held);
        }
      } catch (...) {
        dropped += samples_in(*kept);
        throw;
      }
      output.finish();
      note_written();
      snapshots.fetch_add(1, std::memory_order_release);  // pairs with snapshot()
      platform::futex_wake_all(snapshots);
    }
    (void)buffer.stop();  // kept samples are in no snapshot: dropped
  }

  // Returns the bytes that the samples hold.
  std::uint64_t write(const std::vector<RecordedSample>& samples) {
    std::uint64_t held = 0;
    taken += samples_in(samples);
    try {
      for (const RecordedSample& one : samples) {
        held += one.bytes;
        output.stage(one);
      }
      output.commit();
    } catch (...) {
      output.drop_staged();  // `output` points into the samples, which end now
      note_written();
      throw;
    }
    note_written();
    return held;
  }

  void note_written() noexcept {
    messages = output.messages();
    bytes = output.bytes();
    files = output.files();
  }

  void end() noexcept {
    collector.end();
    progress->wait_for_threads();
  }

  static constexpr std::size_t kMaxAtOnce = 64;  // samples of a snapshot that are written together

  const bus::ParticipantRef participant;
  const bool keeps;  // for snapshots
  RecordBuffer buffer;
  RecordCollector collector;
  RecordOutput output;  // used by the writing thread, except path_of()
  const std::shared_ptr<RecordProgress> progress = std::make_shared<RecordProgress>();
  std::uint64_t taken = 0;  // samples taken by the writing thread
  std::atomic<std::uint64_t> messages = 0;
  std::atomic<std::uint64_t> bytes = 0;
  std::atomic<std::uint32_t> files = 0;
  std::atomic<std::uint32_t> snapshots = 0;  // a futex: the number of written snapshots
  std::atomic<std::uint64_t> dropped = 0;  // taken from the buffer, or left there, and not written
  std::atomic<bool> closed = false;
};

Recorder::Recorder(const RecorderOptions& options) {
  platform::with_memory_errors([&] { state_.emplace(options); });
}
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&&) noexcept = default;
Recorder::~Recorder() = default;

Outcome Recorder::snapshot(std::string& path, const platform::StopCondition& stop) {
  State& state = *state_;
  if (!state.keeps)
    throw Error(Code::kInvalidArgument,
                "snapshot: this recorder keeps no messages: make it with a snapshot time");
  state.collector.look(stop);
  const std::uint32_t number = state.buffer.request_snapshot(state.collector.clock().now());
  if (number == 0) return Outcome::kClosed;
  path = state.output.path_of(number);
  std::uint32_t seen = 0;
  const auto is_over = [&] {
    seen = state.snapshots.load(std::memory_order_acquire);  // pairs with write_snapshots()
    return seen >= number || state.progress->has_failed();
  };
  const Outcome outcome = stop.wait(is_over, [&](std::chrono::nanoseconds most) {
    return platform::futex_wait(state.snapshots, seen, most);
  });
  return outcome == Outcome::kDone && seen < number ? Outcome::kClosed : outcome;
}

Outcome Recorder::wait(const platform::StopCondition& stop) {
  RecordProgress& progress = *state_->progress;
  return stop.wait([&] { return progress.has_failed(); },
                   [&](std::chrono::nanoseconds most) { return progress.park_until_failed(most); });
}

RecorderStats Recorder::stats() const {
  const State& state = *state_;
  RecorderStats stats{.messages = state.messages,
                      .bytes = state.bytes,
                      .files = state.files,
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

}  // namespace tensorbus::recording
