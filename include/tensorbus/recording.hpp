#pragma once

#include <tensorbus/c/recording.h>

#include <cstdint>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/recorded.hpp>
#include <vector>

namespace tensorbus::inline v0 {

// A mapped file that a Recorder has written: its messages, in the order of their times. Their
// tensors are read-only views of the file and outlive the recording; publishing or sharing one
// lends the file by reference. Tensors of compressed messages are views of memory into which their
// chunk was unpacked; publishing or sharing one copies it. A recording is immutable, and usable in
// several threads and in forked children.
//
//   const tensorbus::Recording recording("run.mcap");
//   for (std::size_t i = 0; i < recording.size(); ++i) use(recording[i].tensor("image"));
//   for (const std::uint32_t i : recording.select({"pose"})) use(recording[i].fields());
class Recording {
 public:
  // Opens the file. A file without an index at its end, because its recorder was killed, is
  // searched. Throws Error, which names the file and the fault: kInvalidArgument; kUnsupported if
  // the file must be searched and its compression library is missing; kPermission; kOutOfMemory;
  // kSystem.
  explicit Recording(const std::string& path)
      : recording_(internal::created<Owned>([&](tb_recording** recording) {
          return tb_recording_open(internal::c_text(path, "the path"), recording);
        })) {}

  std::size_t size() const { return tb_recording_message_count(alive()); }
  // Returns a message. Throws Error(kInvalidArgument) if no message has this number, or if it is
  // damaged (the text describes the damage); Error(kUnsupported) if another program has encoded it,
  // or its compression library is missing; Error(kOutOfMemory).
  Sample operator[](std::size_t index) const {
    Sample sample;
    (void)internal::receive_into(
        sample, [&](tb_sample** given) { return tb_recording_get(alive(), index, given); });
    return sample;
  }
  // The time at which a message was recorded, ns since 1970. Throws Error(kInvalidArgument).
  std::uint64_t time_ns(std::size_t index) const {
    std::uint64_t time = 0;
    internal::require_done(tb_recording_time(alive(), index, &time));
    return time;
  }
  // Returns the numbers of the messages on these topics (none: all), recorded from `begin_ns` to
  // before `end_ns`.
  std::vector<std::uint32_t> select(const std::vector<std::string>& topics = {},
                                    std::uint64_t begin_ns = 0,
                                    std::uint64_t end_ns = UINT64_MAX) const {
    std::vector<const char*> names;
    for (const std::string& topic : topics)
      names.push_back(internal::c_text(topic, "the name of a topic"));
    std::vector<std::uint32_t> indices(size());
    std::size_t count = 0;
    internal::require_done(tb_recording_select(alive(), names.data(), names.size(), begin_ns,
                                               end_ns, indices.data(), indices.size(), &count));
    indices.resize(count);
    return indices;
  }

  // Returns the recorded topics, sorted by name.
  std::vector<RecordedTopic> topics() const {
    std::vector<RecordedTopic> topics(tb_recording_topic_count(alive()));
    for (std::uint32_t i = 0; i < topics.size(); ++i) {
      tb_recorded_topic given = TB_RECORDED_TOPIC_INIT;
      internal::require_done(tb_recording_topic(alive(), i, &given));
      topics[i] = {.name = given.name,
                   .types = {given.types, given.types + given.type_count},
                   .publishers = given.publishers,
                   .messages = given.messages,
                   .lost = given.lost,
                   .begin_ns = given.begin_ns,
                   .end_ns = given.end_ns};
    }
    return topics;
  }
  // Returns information about the recorder: "version", "host", "domain" or "started"; "" for
  // another name.
  std::string about(const std::string& name) const {
    const char* const found = tb_recording_about(alive(), internal::c_text(name, "the name"));
    return found == nullptr ? "" : found;
  }
  // Returns why the file had to be searched, and where it ends; "" if it is complete.
  std::string recovered() const { return tb_recording_recovered(alive()); }
  // Returns a description of what could not be read; "" if nothing is missing.
  std::string damage() const { return tb_recording_damage(alive()); }
  // Throws Error(kSystem) if the memory does not have the contents of the file; see
  // MappedFile::check().
  void check() const { internal::require_done(tb_recording_check(alive())); }

 private:
  friend class Player;
  using Owned = internal::Owned<tb_recording, tb_recording_destroy>;
  tb_recording* alive() const { return internal::living(recording_, "recording"); }

  Owned recording_;
};

}  // namespace tensorbus::inline v0
