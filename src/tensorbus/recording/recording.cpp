#include "tensorbus/recording/recording.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/recording/read/chunk_cache.hpp"
#include "tensorbus/tensor/mcap/message_head.hpp"
#include "tensorbus/tensor/mcap/read_contents.hpp"

namespace tensorbus::recording {
namespace {

using tensor::mcap::MessageEntry;

constexpr std::size_t kMaxMessages = UINT32_MAX;

// Returns the result of `work`, and adds `what` to its errors.
template <typename Work>
auto with_errors_about(const std::string& what, Work work) {
  try {
    return platform::with_memory_errors(work);
  } catch (const Error& error) {
    throw Error(error.code(), what + error.what());
  }
}

// Opens the file without blocking: the call must not wait for the other end of a pipe.
platform::Fd open_recording(const std::string& path) {
  platform::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd) return fd;
  const int error_number = errno;
  if (error_number == EACCES || error_number == EPERM)
    throw Error(Code::kPermission, "opening it: " + std::generic_category().message(error_number));
  platform::throw_system("opening it", error_number, platform::During::kFile);
}

std::string value_in(const tensor::mcap::TextMap& map, const char* key) {
  const auto found = map.find(key);
  return found == map.end() ? std::string() : found->second;
}

std::shared_ptr<const link::Source> source_of_channel(const tensor::mcap::Channel& channel) {
  const auto name = bus::parse_publisher_name(value_in(channel.metadata, "publisher"));
  auto source = std::make_shared<link::Source>();
  if (name) std::tie(source->participant, source->publisher) = *name;
  source->topic = channel.topic;
  const std::string machine = value_in(channel.metadata, "machine");
  if (!machine.empty())
    source->origin = std::make_shared<const link::MirrorOrigin>(
        link::MirrorOrigin{machine, value_in(channel.metadata, "origin")});
  return source;
}

void require_record(std::span<const std::byte> record, const MessageEntry& entry) {
  tensor::mcap::RecordCursor cursor(record);
  if (cursor.number<std::uint8_t>() != static_cast<std::uint8_t>(tensor::mcap::Opcode::kMessage))
    tensor::mcap::refuse_record("the file has changed: the message is not there");
  if (cursor.number<std::uint64_t>() != entry.bytes)
    tensor::mcap::refuse_record("the length of its record differs from the index");
  if (cursor.number<std::uint16_t>() != entry.channel)
    tensor::mcap::refuse_record("its channel differs from the index");
  (void)cursor.number<std::uint32_t>();
  if (cursor.number<std::uint64_t>() != entry.log_time)
    tensor::mcap::refuse_record("its time differs from the index");
}

std::uint64_t publish_time_in(std::span<const std::byte> record) {
  tensor::mcap::RecordCursor cursor(record.last(sizeof(std::uint64_t)));
  return cursor.number<std::uint64_t>();
}

}  // namespace

Recording::Recording(const std::string& path) {
  const std::string file = memory::about_file(path);
  const platform::Fd fd = with_errors_about(file, [&] { return open_recording(path); });
  const std::size_t size = with_errors_about(file, [&] {
    const tensor::FileBytes bytes(fd.get());
    contents_ = std::make_shared<const tensor::mcap::Contents>(tensor::mcap::read_contents(bytes));
    if (contents_->messages.size() > kMaxMessages)
      throw Error(Code::kUnsupported, "it has more than 4,294,967,295 messages");
    for (const auto& [id, channel] : contents_->channels) sources_[id] = source_of_channel(channel);
    return bytes.size();
  });
  chunks_ = std::make_shared<ChunkCache>();
  file_ = std::make_shared<memory::MappedFile>(fd.get(), path, 0, size,
                                               memory::MappedFile::Mode::kRead);
}

bus::Sample Recording::sample(std::size_t index) const {
  if (index >= contents_->messages.size())
    tensor::mcap::refuse_record(memory::about_file(file_->path()) + "it has " +
                                std::to_string(contents_->messages.size()) +
                                " messages, but none with number " + std::to_string(index));
  const MessageEntry& entry = contents_->messages[index];
  return with_errors_about(memory::about_file(file_->path()) + "message " + std::to_string(index) +
                               ", at byte " + std::to_string(entry.offset) + ": ",
                           [&] { return sample_at(entry); });
}

tensor::mcap::Compression Recording::compression(std::size_t index) const {
  const MessageEntry& entry = contents_->messages.at(index);
  if (!entry.is_packed()) return tensor::mcap::Compression::kNone;
  return chunks_->get(file_->bytes(), entry.offset)->compression();
}

bus::Sample Recording::sample_at(const MessageEntry& entry) const {
  if (!entry.is_packed()) return sample_in(file_->bytes(), entry.offset, entry, file_);
  const auto chunk = chunks_->get(file_->bytes(), entry.offset);
  return sample_in(chunk->records(), entry.in_chunk, entry, chunk);
}

// `records`: the records of the file or of a chunk. The message's record begins at byte `at`.
bus::Sample Recording::sample_in(std::span<const std::byte> records, std::uint64_t at,
                                 const MessageEntry& entry,
                                 const std::shared_ptr<const void>& keeper) const {
  constexpr std::size_t kBefore = tensor::mcap::kRecordHead + tensor::mcap::kMessageHead;
  const tensor::mcap::Channel& channel = contents_->channels.at(entry.channel);
  if (channel.encoding != tensor::mcap::kEncoding)
    throw Error(Code::kUnsupported,
                "it is encoded as '" + channel.encoding + "': only Tensorbus messages can be read");
  if (at > records.size() || records.size() - at < tensor::mcap::kRecordHead ||
      entry.bytes > records.size() - at - tensor::mcap::kRecordHead)
    tensor::mcap::refuse_record("it does not lie in its chunk");
  const auto record = records.subspan(at, tensor::mcap::kRecordHead + entry.bytes);
  require_record(record, entry);
  const auto data = record.subspan(kBefore);
  // Copied before it is checked, so that a process that writes to the file cannot change it.
  std::vector<std::byte> head;
  if (data.size() >= tensor::mcap::kHeadStart) {
    const auto start = data.first(tensor::mcap::kHeadStart);
    const std::size_t bytes = tensor::mcap::head_bytes_in(start, data.size());
    head.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  const tensor::mcap::MessageHead decoded = tensor::mcap::decode_head(head, data.size());
  const auto& source = sources_.at(entry.channel);
  const SampleHeader header{.sequence = decoded.sequence,
                            .timestamp_ns = publish_time_in(record.first(kBefore)),
                            .fingerprint = decoded.fingerprint,
                            .publisher = source->participant,
                            .publisher_number = source->publisher,
                            .topic = source->topic,
                            .origin = {}};
  return bus::SampleData::of_file(header, source, std::move(head), decoded, data.data(), keeper);
}

std::vector<std::uint32_t> Recording::select(const std::vector<std::string>& topics,
                                             std::uint64_t begin, std::uint64_t end) const {
  const std::set<std::string> names(topics.begin(), topics.end());
  std::set<std::uint16_t> channels;
  for (const auto& [id, channel] : contents_->channels)
    if (names.empty() || names.contains(channel.topic)) channels.insert(id);
  const auto first =
      std::ranges::lower_bound(contents_->messages, begin, {}, &MessageEntry::log_time);
  std::vector<std::uint32_t> found;
  for (auto entry = first; entry != contents_->messages.end() && entry->log_time < end; ++entry)
    if (channels.contains(entry->channel))
      found.push_back(static_cast<std::uint32_t>(entry - contents_->messages.begin()));
  return found;
}

std::vector<RecordedTopic> Recording::topics() const {
  std::map<std::string, RecordedTopic> topics;
  for (const auto& [id, channel] : contents_->channels) {
    RecordedTopic& topic = topics[channel.topic];
    topic.name = channel.topic;
    ++topic.publishers;
    const auto schema = contents_->schemas.find(channel.schema);
    if (schema == contents_->schemas.end()) continue;
    const bool is_own = schema->second.encoding == tensor::mcap::kEncoding;
    const std::string& type = is_own ? schema->second.definition : schema->second.name;
    if (type.empty()) continue;
    const auto place = std::ranges::lower_bound(topic.types, type);
    if (place == topic.types.end() || *place != type) topic.types.insert(place, type);
  }
  std::map<std::uint16_t, RecordedTopic*> of_channel;
  for (const auto& [id, channel] : contents_->channels) of_channel[id] = &topics[channel.topic];
  for (const MessageEntry& entry : contents_->messages) {
    RecordedTopic& topic = *of_channel.at(entry.channel);
    if (topic.messages++ == 0) topic.begin_ns = entry.log_time;
    topic.end_ns = entry.log_time;
  }
  for (const tensor::mcap::Lost& lost : contents_->lost)
    of_channel.at(lost.channel)->lost += lost.count;
  std::vector<RecordedTopic> all;
  for (auto& [name, topic] : topics) all.push_back(std::move(topic));
  return all;
}

}  // namespace tensorbus::recording
