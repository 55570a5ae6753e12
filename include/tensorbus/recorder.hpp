#pragma once

#include <tensorbus/c/recording.h>

#include <array>
#include <chrono>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/from_c.hpp>
#include <tensorbus/values/outcome.hpp>
#include <tensorbus/values/recorded.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// Writes the messages of topics to a file, from the memory in which they were published
// (docs/recording.md), until close() or its destructor. A recorder has a participant of its own and
// two threads.
//
//   tensorbus::Recorder recorder({.path = "run.mcap", .topics = {"camera/image"}});
//   ...
//   recorder.close();
//   std::printf("%lu messages\n", recorder.stats().messages);
class Recorder {
 public:
  // Makes the file and subscribes. Throws Error(kInvalidArgument) for an invalid option, which the
  // text names, or if the file exists; Error(kUnsupported) for a compression without its library;
  // Error(kPermission), Error(kOutOfMemory) or Error(kSystem) for a file that cannot be made.
  explicit Recorder(const RecorderOptions& options) : recorder_(made(options)) {}

  // Writes the kept samples to a new file and continues; `path` gets the path of that file. Returns
  // kDone; kTimedOut or kInterrupted (the file will still be written); kClosed if recording has
  // ended. Throws Error(kInvalidArgument) without `snapshot_time`.
  [[nodiscard]] Outcome snapshot(std::string& path,
                                 std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max(),
                                 const GiveUp& give_up = {}) {
    const internal::Asked asked(give_up);
    std::array<char, kMaxPath> text{};
    const Outcome outcome = internal::outcome_of(asked.ended(
        tb_recorder_snapshot(alive(), timeout.count(), asked.get(), text.data(), text.size())));
    if (outcome == Outcome::kDone) path = text.data();
    return outcome;
  }
  // Waits until an error, e.g. a full disk, ends recording early; close() throws the error. Returns
  // kDone, kTimedOut or kInterrupted.
  [[nodiscard]] Outcome wait(std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max(),
                             const GiveUp& give_up = {}) {
    const internal::Asked asked(give_up);
    return internal::outcome_of(
        asked.ended(tb_recorder_wait(alive(), timeout.count(), asked.get())));
  }
  RecorderStats stats() const {
    tb_recorder_stats given = TB_RECORDER_STATS_INIT;
    internal::require_done(tb_recorder_get_stats(alive(), &given));
    std::array<char, kMaxPath> error{};
    internal::require_done(tb_recorder_last_error(alive(), error.data(), error.size()));
    auto stats = internal::from_c<RecorderStats>(given);
    stats.error = error.data();
    return stats;
  }
  // Writes the messages published before this call, and the end of the file. Throws the Error that
  // ended recording early; its text describes what the file contains. A second call does nothing.
  void close() { internal::require_done(tb_recorder_close(alive())); }

 private:
  static constexpr std::size_t kMaxPath = 8192;
  using Owned = internal::Owned<tb_recorder, tb_recorder_destroy>;

  static std::vector<const char*> texts_of(const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& text : texts)
      pointers.push_back(internal::c_text(text, "the name of a topic"));
    return pointers;
  }
  static Owned made(const RecorderOptions& options) {
    const std::vector<const char*> topics = texts_of(options.topics);
    std::vector<const char*> compressed, how;
    for (const auto& [topic, compression] : options.compress_topics) {
      compressed.push_back(internal::c_text(topic, "the name of a topic"));
      how.push_back(internal::c_text(compression, "the compression"));
    }
    tb_recorder_options given = TB_RECORDER_OPTIONS_INIT;
    given.depth = options.depth;
    given.topics = topics.data();
    given.topic_count = topics.size();
    given.pattern = internal::c_text_or_null(options.pattern, "the pattern");
    given.all = options.all ? 1 : 0;
    given.reliable = options.reliable ? 1 : 0;
    given.overwrite = options.overwrite ? 1 : 0;
    given.buffer_bytes = options.buffer_bytes;
    given.split_bytes = options.split_bytes;
    given.split_ns = options.split_time.count();
    given.snapshot_ns = options.snapshot_time.count();
    given.compress = internal::c_text_or_null(options.compress, "the compression");
    given.compressed_topics = compressed.data();
    given.compressions = how.data();
    given.compressed_count = compressed.size();
    given.domain = internal::c_text_or_null(options.domain, "the domain");
    return internal::created<Owned>([&](tb_recorder** recorder) {
      return tb_recorder_create(internal::c_text(options.path, "the path"), &given, recorder);
    });
  }
  tb_recorder* alive() const { return internal::living(recorder_, "recorder"); }

  Owned recorder_;
};

}  // namespace tensorbus::inline v0
