#include "tensorbus/recording/recording.hpp"

#include <tensorbus/c/recording.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/recordings.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/c/to_c.hpp"
#include "tensorbus/recording/recorder.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

struct tb_recorder {
  recording::Recorder recorder;
};

namespace {

RecorderOptions options_of(const char* path, const tb_recorder_options& given) {
  RecorderOptions options{.path = text_of(path, "path"),
                          .topics = texts_of(given.topics, given.topic_count, "topics"),
                          .all = given.all != 0,
                          .pattern = text_or_none(given.pattern),
                          .reliable = given.reliable != 0,
                          .buffer_bytes = given.buffer_bytes,
                          .depth = given.depth,
                          .overwrite = given.overwrite != 0,
                          .split_bytes = given.split_bytes,
                          .split_time = std::chrono::nanoseconds(given.split_ns),
                          .snapshot_time = std::chrono::nanoseconds(given.snapshot_ns),
                          .compress = text_or_none(given.compress),
                          .domain = text_or_none(given.domain)};
  const auto topics =
      texts_of(given.compressed_topics, given.compressed_count, "compressed_topics");
  const auto how = texts_of(given.compressions, given.compressed_count, "compressions");
  for (std::size_t i = 0; i < topics.size(); ++i) options.compress_topics[topics[i]] = how[i];
  return options;
}

const recording::Recording& in(const tb_recording* recording) {
  return required(recording, "recording").recording;
}

}  // namespace

tb_status tb_recorder_create(const char* path, const tb_recorder_options* options,
                             tb_recorder** recorder) {
  return done([&] {
    const auto given = taken_or<tb_recorder_options>(options, TB_RECORDER_OPTIONS_INIT);
    const RecorderOptions known = options_of(path, given);
    hand_out(recorder, "recorder", [&] { return new tb_recorder{recording::Recorder(known)}; });
  });
}

void tb_recorder_destroy(tb_recorder* recorder) { delete recorder; }

tb_status tb_recorder_close(tb_recorder* recorder) {
  return done([&] { required(recorder, "recorder").recorder.close(); });
}

tb_status tb_recorder_snapshot(tb_recorder* recorder, int64_t timeout_ns, const tb_give_up* give_up,
                               char* path, size_t bytes) {
  return guarded([&] {
    recording::Recorder& known = required(recorder, "recorder").recorder;
    if (bytes > 0) (void)required(path, "path");  // checked before a snapshot is written
    std::string file;
    const Outcome outcome = known.snapshot(file, stop_of(timeout_ns, give_up));
    if (outcome == Outcome::kDone) give_text(file, path, bytes);
    return status_of(outcome);
  });
}

tb_status tb_recorder_wait(tb_recorder* recorder, int64_t timeout_ns, const tb_give_up* give_up) {
  return guarded([&] {
    return status_of(required(recorder, "recorder").recorder.wait(stop_of(timeout_ns, give_up)));
  });
}

tb_status tb_recorder_get_stats(const tb_recorder* recorder, tb_recorder_stats* stats) {
  return done([&] {
    const RecorderStats found = required(recorder, "recorder").recorder.stats();
    give(&required(stats, "stats"), c_stats<tb_recorder_stats>(found));
  });
}

tb_status tb_recorder_last_error(const tb_recorder* recorder, char* text, size_t bytes) {
  return done(
      [&] { give_text(required(recorder, "recorder").recorder.stats().error, text, bytes); });
}

tb_status tb_recording_open(const char* path, tb_recording** recording) {
  return done([&] {
    const char* const name = text_of(path, "path");
    hand_out(recording, "recording", [&] { return new tb_recording(name); });
  });
}

void tb_recording_destroy(tb_recording* recording) { delete recording; }

uint64_t tb_recording_message_count(const tb_recording* recording) {
  return recording == nullptr ? 0 : recording->recording.contents().messages.size();
}

tb_status tb_recording_time(const tb_recording* recording, uint64_t index, uint64_t* time_ns) {
  return done([&] {
    const auto& messages = in(recording).contents().messages;
    if (index >= messages.size())
      throw Error(Code::kInvalidArgument, "message " + std::to_string(index) +
                                              ": the recording has only " +
                                              std::to_string(messages.size()));
    required(time_ns, "time_ns") = messages[index].log_time;
  });
}

tb_status tb_recording_get(const tb_recording* recording, uint64_t index, tb_sample** sample) {
  return done(
      [&] { hand_out(sample, "sample", [&] { return sample_of(in(recording).sample(index)); }); });
}

tb_status tb_recording_select(const tb_recording* recording, const char* const* topics,
                              size_t topic_count, uint64_t begin_ns, uint64_t end_ns,
                              uint32_t* indices, size_t capacity, size_t* count) {
  return done([&] {
    const auto found =
        in(recording).select(texts_of(topics, topic_count, "topics"), begin_ns, end_ns);
    const std::size_t given = std::min(capacity, found.size());
    if (given > 0) std::copy_n(found.begin(), given, &required(indices, "indices"));
    required(count, "count") = found.size();
  });
}

uint32_t tb_recording_topic_count(const tb_recording* recording) {
  return recording == nullptr ? 0 : static_cast<std::uint32_t>(recording->topics.size());
}

tb_status tb_recording_topic(const tb_recording* recording, uint32_t index,
                             tb_recorded_topic* topic) {
  return done([&] {
    const auto& topics = required(recording, "recording").topics;
    if (index >= topics.size())
      throw Error(Code::kInvalidArgument, "topic " + std::to_string(index) +
                                              ": the recording has only " +
                                              std::to_string(topics.size()));
    const RecordedTopic& found = topics[index];
    tb_recorded_topic made = TB_RECORDED_TOPIC_INIT;
    made.publishers = found.publishers;
    made.name = found.name.c_str();
    made.types = recording->types[index].data();
    made.type_count = recording->types[index].size();
    made.messages = found.messages;
    made.lost = found.lost;
    made.begin_ns = found.begin_ns;
    made.end_ns = found.end_ns;
    give(&required(topic, "topic"), made);
  });
}

const char* tb_recording_about(const tb_recording* recording, const char* name) {
  if (recording == nullptr || name == nullptr) return nullptr;
  const auto& about = recording->recording.contents().about;
  const auto found = about.find(name);
  return found == about.end() ? nullptr : found->second.c_str();
}

const char* tb_recording_recovered(const tb_recording* recording) {
  return recording == nullptr ? "" : recording->recording.contents().recovered.c_str();
}

const char* tb_recording_damage(const tb_recording* recording) {
  return recording == nullptr ? "" : recording->recording.contents().damage.c_str();
}

tb_status tb_recording_check(const tb_recording* recording) {
  return done([&] { in(recording).file().check(); });
}
