#include "tensorbus/tensor/recording/recording_writer.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/version.hpp"

namespace tensorbus::recording {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;
constexpr std::array<std::byte, kPage> kZeros{};
constexpr std::size_t kMostIds = 65'535;
constexpr std::size_t kIndexEntries = 65'536;  // of each index: 2 MiB

// Returns the bytes from `at` to where a run of so many bytes is aligned.
std::size_t gap_before(std::uint64_t at, std::size_t run_bytes) {
  const std::size_t alignment = run_bytes >= kLargeBytes ? kPage : kLine;
  return (alignment - at % alignment) % alignment;
}

std::string name_in(const std::string& definition) {
  return definition.substr(0, definition.find('\n'));
}

}  // namespace

RecordingWriter::RecordingWriter(const std::string& path, bool overwrite, const TextMap& about)
    : output_(path, overwrite) {
  RecordWriter out(made_);
  out.raw(kMagic);
  out.begin(Opcode::kHeader);
  out.text("");
  out.text(std::string("tensorbus ") + kVersion);
  out.end();
  put_made(0);
  summary_.about.offset = staged_end();
  stage_metadata(kAboutName, about);
  summary_.about.bytes = staged_end() - summary_.about.offset;
  commit();
}

std::uint16_t RecordingWriter::schema_of(const std::string& definition) {
  if (definition.empty()) return 0;
  const auto found = schemas_.find(definition);
  if (found != schemas_.end()) return found->second.id;
  const Schema schema{static_cast<std::uint16_t>(schemas_.size() + 1), name_in(definition),
                      std::string(kEncoding), definition};
  const std::size_t begin = made_.size();
  encode(schema, made_);
  put_made(begin);
  return schemas_.emplace(definition, schema).first->second.id;
}

std::uint16_t RecordingWriter::add_channel(const std::string& topic, const std::string& definition,
                                           const TextMap& metadata) {
  if (summary_.channels.size() == kMostIds)
    throw Error(Code::kUnsupported, memory::about_file(path()) +
                                        "it has 65,535 publishers, and MCAP has numbers for no "
                                        "more: begin another file");
  const auto id = static_cast<std::uint16_t>(summary_.channels.size() + 1);
  const Channel channel{id, schema_of(definition), topic, std::string(kEncoding), metadata};
  const std::size_t begin = made_.size();
  encode(channel, made_);
  put_made(begin);
  summary_.channels.push_back(channel);
  summary_.messages[id] = 0;
  return id;
}

void RecordingWriter::add_lost(const Lost& lost) {
  stage_metadata(kLostName, {{"channel", std::to_string(lost.channel)},
                             {"topic", summary_.channels[lost.channel - 1].topic},
                             {"first", std::to_string(lost.first)},
                             {"count", std::to_string(lost.count)},
                             {"log_time", std::to_string(lost.log_time)}});
  staged_.push_back({{lost.first, lost.count, lost.log_time, lost.channel, 1}, staged_end()});
}

void RecordingWriter::add_message(const OutgoingMessage& message) {
  const std::uint64_t data_at = staged_end() + kRecordHead + kMessageHead;
  MessageHead head = message.head;
  std::vector<std::uint64_t> begins(message.runs.size());
  std::uint64_t at = data_at + head_bytes(head);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    at += gap_before(at, message.runs[i].size());
    begins[i] = at - data_at;
    at += message.runs[i].size();
  }
  for (std::size_t i = 0; i < head.tensors.size(); ++i)
    if (message.run_of[i] < begins.size()) head.tensors[i].offset += begins[message.run_of[i]];

  const std::size_t begin = made_.size();
  const std::uint64_t record_at = staged_end();
  RecordWriter out(made_);
  out.begin(Opcode::kMessage);
  out.number(message.channel);
  out.number(static_cast<std::uint32_t>(head.sequence));
  out.number(message.log_time);
  out.number(message.publish_time);
  out.end(at - data_at);
  encode_head(head, made_);
  const std::uint64_t content = kMessageHead + (at - data_at);
  put_made(begin);
  put(head.fields);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    put(std::span(kZeros).first(data_at + begins[i] - staged_end()));
    put(message.runs[i]);
  }
  staged_.push_back({{record_at, content, message.log_time, message.channel}, staged_end()});
}

void RecordingWriter::stage_metadata(std::string_view name, const TextMap& metadata) {
  const std::size_t begin = made_.size();
  RecordWriter out(made_);
  out.begin(Opcode::kMetadata);
  out.text(name);
  out.map(metadata);
  out.end();
  put_made(begin);
  ++summary_.metadata_count;
}

void RecordingWriter::put(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  pieces_.push_back({bytes.data(), bytes.size()});
  staged_bytes_ += bytes.size();
}

// Adds all that was made since `begin`.
void RecordingWriter::put_made(std::size_t begin) {
  const std::size_t bytes = made_.size() - begin;
  if (!pieces_.empty() && pieces_.back().data == nullptr)
    pieces_.back().bytes += bytes;
  else
    pieces_.push_back({nullptr, bytes});
  staged_bytes_ += bytes;
}

// Returns 0, or the errno for which it could not write all; then the file ends with a message.
int RecordingWriter::write() {
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(pieces_.size());
  const std::byte* made = made_.data();
  for (const Piece& piece : pieces_) {
    pieces.emplace_back(piece.data != nullptr ? piece.data : made, piece.bytes);
    if (piece.data == nullptr) made += piece.bytes;
  }
  std::uint64_t end = output_.end();
  const int error_number = output_.append(pieces);
  std::erase_if(staged_, [this](const StagedEntry& one) { return one.end > output_.end(); });
  if (error_number != 0) output_.cut(staged_.empty() ? end : staged_.back().end);
  take_written();
  pieces_.clear();
  made_.clear();
  staged_bytes_ = 0;
  return error_number;
}

void RecordingWriter::take_written() {
  for (const auto& [entry, end] : staged_) {
    entries_.push_back(entry);
    if (entry.is_lost != 0) continue;
    if (messages_++ == 0) summary_.first_time = entry.log_time;
    summary_.last_time = entry.log_time;
    ++summary_.messages[entry.channel];
  }
  staged_.clear();
}

void RecordingWriter::fail(const std::string& during, int error_number) {
  failed_ = true;
  platform::throw_system(memory::about_file(path()) + during + " (" + std::to_string(messages_) +
                             " complete messages, " + std::to_string(bytes()) +
                             " bytes, are in it and can be read)",
                         error_number, platform::During::kFile);
}

void RecordingWriter::commit() {
  if (failed_) throw Error(Code::kClosed, memory::about_file(path()) + "nothing can be added");
  if (const int error_number = write(); error_number != 0) fail("writing to it", error_number);
  if (entries_.size() < kIndexEntries) return;
  stage_index();
  if (const int error_number = write(); error_number != 0) fail("writing to it", error_number);
  entries_.clear();
}

void RecordingWriter::finish() {
  if (!failed_) commit();
  const std::uint64_t data_end = output_.end();
  failed_ = true;  // nothing comes behind its end
  std::erase_if(summary_.indexes, [data_end](const IndexPlace& index) {
    return index.record.offset >= data_end;  // its writing failed
  });
  stage_index();
  stage_end();
  if (const int error_number = write(); error_number != 0) {
    output_.cut(data_end);
    fail("writing the index at its end", error_number);
  }
}

void RecordingWriter::stage_index() {
  const std::uint64_t at = staged_end();
  const std::size_t begin = made_.size();
  summary_.indexes.push_back(encode_index(entries_, at, made_));
  put_made(begin);
}

void RecordingWriter::stage_end() {
  const std::size_t begin = made_.size();
  RecordWriter out(made_);
  out.begin(Opcode::kDataEnd);
  out.number(std::uint32_t{0});
  out.end();
  for (const auto& [definition, schema] : schemas_) summary_.schemas.push_back(schema);
  encode_summary(summary_, staged_end() + (made_.size() - begin), made_);
  put_made(begin);
}

}  // namespace tensorbus::recording
