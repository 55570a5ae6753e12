#include "tensorbus/recording/recording_copy.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/log.hpp"

namespace tensorbus::recording {
namespace {

constexpr std::size_t kMaxAtOnce = 512;
constexpr std::uint64_t kMaxBytesAtOnce = std::uint64_t{32} << 20;

// An entry to write: a message, or a report of lost messages.
struct CopiedEntry {
  std::uint64_t log_time = 0;
  std::uint32_t part = 0;
  std::uint32_t number = 0;  // of the message, or of the report
  bool is_lost = false;
};

class RecordingCopier {
 public:
  RecordingCopier(std::span<const RecordingPart> parts, const CopyOptions& options)
      : parts_(parts),
        options_(options),
        channels_(parts.size()),
        output_({.path = options.path,
                 .overwrite = options.overwrite,
                 .about = about(),
                 .compression = options.compression,
                 .chunks = options.keep_compression && has_packed()}) {}

  CopiedMessages run() {
    require_topics_to_compress();
    output_.begin();
    for (const CopiedEntry& entry : entries()) {
      if (entry.is_lost)
        add_lost(entry);
      else
        add_message(entry);
      if (staged_.size() == kMaxAtOnce || staged_bytes_ >= kMaxBytesAtOnce) commit();
    }
    commit();
    output_.finish();
    for (const std::string& text : output_.uncompressed())
      platform::log(platform::LogLevel::kWarning, ("copy: " + text).c_str());
    copied_.messages = output_.messages();
    copied_.bytes = output_.bytes();
    return std::move(copied_);
  }

 private:
  tensor::mcap::TextMap about() const {
    tensor::mcap::TextMap map;
    if (!parts_.empty()) map = parts_.front().recording.contents().about;
    map["copied"] = std::to_string(platform::wall_clock_ns());
    map["format"] = "1";
    return map;
  }

  void require_topics_to_compress() const {
    for (const auto& [topic, how] : options_.compression.topics)
      if (std::ranges::none_of(parts_, [&topic](const RecordingPart& part) {
            return std::ranges::any_of(part.recording.contents().channels,
                                       [&](const auto& one) { return one.second.topic == topic; });
          }))
        throw Error(Code::kInvalidArgument,
                    "compress: nothing was recorded on topic '" + topic + "'");
  }

  bool has_packed() const {
    return std::ranges::any_of(parts_, [](const RecordingPart& part) {
      return std::ranges::any_of(part.recording.contents().messages,
                                 &tensor::mcap::MessageEntry::is_packed);
    });
  }

  std::vector<CopiedEntry> entries() const {
    std::vector<CopiedEntry> entries;
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
      const RecordingPart& part = parts_[i];
      const tensor::mcap::Contents& contents = part.recording.contents();
      for (std::uint32_t j = 0; j < contents.lost.size(); ++j) {
        const tensor::mcap::Lost& lost = contents.lost[j];
        const std::string& topic = contents.channels.at(lost.channel).topic;
        const bool wanted = part.topics.empty() || std::ranges::count(part.topics, topic) > 0;
        if (wanted && lost.log_time >= part.begin_ns && lost.log_time < part.end_ns)
          entries.push_back({lost.log_time, i, j, true});
      }
      for (const std::uint32_t number :
           part.recording.select(part.topics, part.begin_ns, part.end_ns))
        entries.push_back({contents.messages[number].log_time, i, number, false});
    }
    std::ranges::stable_sort(entries, {}, &CopiedEntry::log_time);
    return entries;
  }

  std::shared_ptr<RecordedPublisher> publisher_of(std::uint32_t part, std::uint16_t id) {
    auto& publisher = channels_[part][id];
    if (publisher) return publisher;
    const tensor::mcap::Contents& contents = parts_[part].recording.contents();
    const tensor::mcap::Channel& channel = contents.channels.at(id);
    const auto schema = contents.schemas.find(channel.schema);
    publisher = std::make_shared<RecordedPublisher>(RecordedPublisher{
        channel.topic, schema == contents.schemas.end() ? std::string() : schema->second.definition,
        channel.metadata});
    return publisher;
  }

  void add_lost(const CopiedEntry& entry) {
    const tensor::mcap::Lost& lost = parts_[entry.part].recording.contents().lost[entry.number];
    RecordedSample& staged = staged_.emplace_back();
    staged.publisher = publisher_of(entry.part, lost.channel);
    staged.log_time = lost.log_time;
    staged.first_lost = lost.first;
    staged.lost = lost.count;
    staged.why_lost = lost.why;
  }

  void add_message(const CopiedEntry& entry) {
    const Recording& recording = parts_[entry.part].recording;
    RecordedSample copied;
    copied.publisher =
        publisher_of(entry.part, recording.contents().messages[entry.number].channel);
    try {
      copied.sample = recording.sample(entry.number);
      if (options_.keep_compression &&
          !options_.compression.topics.contains(copied.publisher->topic))
        copied.compression = recording.compression(entry.number);
    } catch (const Error& error) {
      ++copied_.unreadable;
      if (copied_.error.empty()) copied_.error = error.what();
      return;
    }
    copied.has_sample = true;
    copied.log_time = entry.log_time;
    copied.bytes = bytes_of(copied.sample);
    staged_bytes_ += copied.bytes;
    staged_.push_back(std::move(copied));
  }

  void commit() {
    for (const RecordedSample& one : staged_) output_.stage(one);
    output_.commit();
    staged_.clear();
    staged_bytes_ = 0;
  }

  const std::span<const RecordingPart> parts_;
  const CopyOptions& options_;
  std::vector<std::map<std::uint16_t, std::shared_ptr<RecordedPublisher>>> channels_;  // of parts
  RecordOutput output_;
  std::vector<RecordedSample> staged_;
  std::uint64_t staged_bytes_ = 0;
  CopiedMessages copied_;
};

}  // namespace

CopiedMessages copy_messages(std::span<const RecordingPart> parts, const CopyOptions& options) {
  return RecordingCopier(parts, options).run();
}

}  // namespace tensorbus::recording
