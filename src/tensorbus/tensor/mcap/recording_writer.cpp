#include "tensorbus/tensor/mcap/recording_writer.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/version.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::size_t kMaxIds = 65'535;
constexpr std::size_t kIndexEntries = 65'536;  // in each index: 2 MiB
constexpr std::size_t kMaxReasons = 4096;      // each is read when the file is opened

// A compressed chunk is written when it has this size or age.
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kChunkTime{1};

std::string name_in(const std::string& definition) {
  return definition.substr(0, definition.find('\n'));
}

}  // namespace

RecordingWriter::RecordingWriter(const std::string& path, bool overwrite, const TextMap& about,
                                 bool chunks)
    : output_(path, overwrite), chunks_(chunks) {
  RecordWriter out(made_);
  out.raw(kMagic);
  out.begin(Opcode::kHeader);
  out.text("");
  out.text(std::string("tensorbus ") + kVersion);
  out.end();
  put_made(0);
  summary_.about = stage_metadata(kAboutName, about);
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
  if (summary_.channels.size() == kMaxIds)
    throw Error(Code::kUnsupported, memory::about_file(path()) +
                                        "it has 65,535 publishers, the maximum of MCAP: begin "
                                        "another file");
  close_plain_chunk();
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
  TextMap about{{"channel", std::to_string(lost.channel)},
                {"topic", summary_.channels[lost.channel - 1].topic},
                {"first", std::to_string(lost.first)},
                {"count", std::to_string(lost.count)},
                {"log_time", std::to_string(lost.log_time)}};
  if (!lost.why.empty()) about["why"] = lost.why;
  const RecordPlace place = stage_metadata(kLostName, about);
  if (!lost.why.empty() && summary_.reasons.size() < kMaxReasons) summary_.reasons.push_back(place);
  staged_.push_back(
      {{lost.first, lost.count, lost.log_time, lost.channel, MessageEntry::kLost}, staged_end()});
}

void RecordingWriter::add_message(const OutgoingMessage& message) {
  if (!chunks_) return put_message(message);
  if (message.compression == Compression::kNone) {
    open_plain_chunk();
    return put_message(message);
  }
  auto [found, is_new] = packing_.try_emplace(message.compression, message.compression);
  found->second.add(message);
  if (found->second.bytes() >= kChunkBytes) pack(found->second);
}

void RecordingWriter::put_message(const OutgoingMessage& message) {
  const std::uint64_t at = staged_end();
  const MessageRecord record = lay_out(message, at);
  const std::size_t begin = made_.size();
  encode_start(message, record, made_);
  put_made(begin);
  for_each_piece(message, record, [this](std::span<const std::byte> piece) { put(piece); });
  staged_.push_back(
      {{at, kMessageHead + record.data_bytes, message.log_time, message.channel}, staged_end()});
}

void RecordingWriter::open_plain_chunk() {
  if (plain_.open) return;
  plain_ = {true, staged_end(), made_.size(), staged_.size()};
  encode_chunk({}, made_);
  put_made(plain_.head_at);
}

// Writes the chunk's size, which is now known. If a full disk cuts the chunk, all of it is lost.
void RecordingWriter::close_plain_chunk() {
  if (!plain_.open) return;
  plain_.open = false;
  std::vector<MessageEntry> entries;
  for (std::size_t i = plain_.first; i < staged_.size(); ++i) entries.push_back(staged_[i].entry);
  ChunkPlace place{.record = {plain_.at, staged_end() - plain_.at},
                   .head = head_of(entries, Compression::kNone)};
  const std::uint64_t before = kRecordHead + place.head.head_bytes();
  place.head.bytes = place.head.stored_bytes = place.record.bytes - before;
  std::vector<std::byte> head;
  encode_chunk(place.head, head);
  std::ranges::copy(head, made_.begin() + static_cast<std::ptrdiff_t>(plain_.head_at));
  const std::size_t begin = made_.size();
  encode_message_indexes(times_of(entries, plain_.at + before), staged_end(), place, made_);
  put_made(begin);
  for (std::size_t i = plain_.first; i < staged_.size(); ++i) staged_[i].end = staged_end();
  summary_.chunks.push_back(std::move(place));
}

void RecordingWriter::pack(ChunkBuilder& chunk) {
  close_plain_chunk();
  const std::size_t begin = made_.size();
  std::vector<std::byte> packed;
  std::vector<MessageEntry> entries;
  summary_.chunks.push_back(chunk.finish(staged_end(), packed, entries));
  made_.insert(made_.end(), packed.begin(), packed.end());
  put_made(begin);
  for (const MessageEntry& entry : entries) staged_.push_back({entry, staged_end()});
}

void RecordingWriter::pack_due() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [how, chunk] : packing_)
    if (!chunk.empty() && now >= chunk.begun() + kChunkTime) pack(chunk);
}

void RecordingWriter::pack_all() {
  for (auto& [how, chunk] : packing_)
    if (!chunk.empty()) pack(chunk);
}

std::optional<std::chrono::steady_clock::time_point> RecordingWriter::due() const {
  std::optional<std::chrono::steady_clock::time_point> first;
  for (const auto& [how, chunk] : packing_)
    if (!chunk.empty() && (!first || chunk.begun() + kChunkTime < *first))
      first = chunk.begun() + kChunkTime;
  return first;
}

std::size_t RecordingWriter::staged_bytes() const noexcept {
  std::size_t bytes = staged_bytes_;
  for (const auto& [how, chunk] : packing_) bytes += chunk.bytes();
  return bytes;
}

RecordPlace RecordingWriter::stage_metadata(std::string_view name, const TextMap& metadata) {
  close_plain_chunk();
  const std::uint64_t at = staged_end();
  const std::size_t begin = made_.size();
  RecordWriter out(made_);
  out.begin(Opcode::kMetadata);
  out.text(name);
  out.map(metadata);
  out.end();
  put_made(begin);
  ++summary_.metadata_count;
  return {at, staged_end() - at};
}

void RecordingWriter::put(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  pieces_.push_back({bytes.data(), bytes.size()});
  staged_bytes_ += bytes.size();
}

// Stages everything in `made_` from `begin` on.
void RecordingWriter::put_made(std::size_t begin) {
  const std::size_t bytes = made_.size() - begin;
  if (!pieces_.empty() && pieces_.back().data == nullptr)
    pieces_.back().bytes += bytes;
  else
    pieces_.push_back({nullptr, bytes});
  staged_bytes_ += bytes;
}

// Returns 0, or the errno of a failure; the file then ends with a complete record.
int RecordingWriter::write() {
  close_plain_chunk();
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
    if (entry.is_lost()) continue;
    if (messages_++ == 0) summary_.first_time = entry.log_time;
    summary_.first_time = std::min(summary_.first_time, entry.log_time);
    summary_.last_time = std::max(summary_.last_time, entry.log_time);
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
  if (!failed_) pack_due();
  if (failed_)
    throw Error(Code::kClosed, memory::about_file(path()) +
                                   "nothing can be added: it is complete, or a write failed");
  if (const int error_number = write(); error_number != 0) fail("writing to it", error_number);
  if (entries_.size() < kIndexEntries) return;
  stage_index();
  if (const int error_number = write(); error_number != 0) fail("writing to it", error_number);
  entries_.clear();
}

void RecordingWriter::drop_staged() noexcept {
  failed_ = true;
  plain_.open = false;
  pieces_.clear();
  made_.clear();
  staged_.clear();
  staged_bytes_ = 0;
  packing_.clear();  // the records of their channels may not be in the file
}

void RecordingWriter::finish() {
  if (std::exchange(finished_, true)) return;
  std::optional<Error> failure;
  if (!failed_) {
    try {
      pack_all();
      commit();
    } catch (const Error& error) {
      failure = error;
    }
  }
  const std::uint64_t data_end = output_.end();
  failed_ = true;  // nothing can be added after the end
  std::erase_if(summary_.indexes, [data_end](const IndexPlace& index) {
    return index.record.offset >= data_end;  // was not written
  });
  std::erase_if(summary_.reasons,
                [data_end](const RecordPlace& lost) { return lost.offset >= data_end; });
  std::erase_if(summary_.chunks, [data_end](const ChunkPlace& chunk) {
    return chunk.record.offset + chunk.record.bytes + chunk.index_bytes > data_end;
  });
  stage_index();
  stage_end();
  if (const int error_number = write(); error_number != 0) {
    output_.cut(data_end);
    if (!failure) fail("writing the index at its end", error_number);
  }
  if (failure) throw Error(*failure);
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

}  // namespace tensorbus::tensor::mcap
