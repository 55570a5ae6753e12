#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "tensorbus/tensor/mcap/chunk.hpp"
#include "tensorbus/tensor/mcap/chunk_builder.hpp"
#include "tensorbus/tensor/mcap/crc32.hpp"
#include "tensorbus/tensor/mcap/read_contents.hpp"
#include "tensorbus/tensor/mcap/summary.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"
#include "tests/unit/tensor/mcap/recording_test_support.hpp"

namespace tensorbus::tensor::mcap {
namespace {

using test::Content;
using test::message_of;
using test::NamelessFile;
using test::recorded_in_chunks;
using test::span_of_text;

constexpr Compression kEach[] = {Compression::kZstd, Compression::kLz4};

Contents contents_in(const std::string& file) { return read_contents(Content(file).bytes()); }

std::string string_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> chunk_at(const std::string& file, std::uint64_t offset) {
  RecordCursor cursor(span_of_text(file).subspan(offset));
  EXPECT_EQ(cursor.number<std::uint8_t>(), static_cast<std::uint8_t>(Opcode::kChunk));
  return cursor.take(cursor.number<std::uint64_t>());
}

// Returns the data of a message's only tensor.
std::string tensor_of(const std::string& file, const MessageEntry& entry) {
  std::optional<UnpackedChunk> chunk;
  if (entry.is_packed()) chunk.emplace(chunk_at(file, entry.offset));
  const auto record = chunk ? chunk->records().subspan(entry.in_chunk, kRecordHead + entry.bytes)
                            : span_of_text(file).subspan(entry.offset, kRecordHead + entry.bytes);
  const auto data = record.subspan(kRecordHead + kMessageHead);
  const MessageHead head = decode_head(data.first(head_bytes_in(data, data.size())), data.size());
  const auto bytes = static_cast<std::size_t>(head.tensors.at(0).layout.shape[0]);
  return bytes == 0 ? "" : string_of(data.subspan(head.tensors[0].offset, bytes));
}

TEST(Chunks, what_is_compressed_comes_back) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i);
  for (const Compression how : kEach) {
    std::vector<std::byte> packed;
    compress(how, span_of_text(text), packed);
    EXPECT_LT(packed.size(), text.size());
    std::string back(text.size(), '\0');
    decompress(how, packed, std::as_writable_bytes(std::span(back)));
    EXPECT_EQ(back, text);
  }
}

TEST(Chunks, damaged_data_and_wrong_sizes_are_refused) {
  const std::string text(10'000, 't');
  for (const Compression how : kEach) {
    std::vector<std::byte> packed;
    compress(how, span_of_text(text), packed);
    std::string back(text.size(), '\0');
    const auto refused = [&](std::span<const std::byte> bytes, std::size_t room) {
      back.assign(room, '\0');
      try {
        decompress(how, bytes, std::as_writable_bytes(std::span(back)));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kInvalidArgument);
        return std::string(error.what()).find(name_of(how)) != std::string::npos;
      }
      return false;
    };
    EXPECT_TRUE(refused(packed, text.size() - 1));
    EXPECT_TRUE(refused(packed, text.size() + 1));
    EXPECT_TRUE(refused(packed, 0));
    EXPECT_TRUE(refused(span_of_text("this is nothing of the kind"), text.size()));
    for (std::size_t size = 0; size < packed.size(); ++size)
      EXPECT_TRUE(refused(std::span(packed).first(size), text.size())) << size;
  }
}

TEST(Chunks, other_compressions_are_named) {
  EXPECT_EQ(compression_named("zstd"), Compression::kZstd);
  try {
    (void)compression_named("bz2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_STREQ(error.what(), "compression 'bz2' is not known: expected 'zstd' or 'lz4'");
  }
}

TEST(Chunks, messages_are_found_by_the_index_and_by_a_search) {
  for (const Compression how : kEach) {
    const std::string whole = recorded_in_chunks(how);
    for (const std::string& file : {whole, whole.substr(0, whole.size() - 1)}) {
      const Contents contents = contents_in(file);
      EXPECT_EQ(contents.recovered == "", file == whole) << contents.recovered;
      EXPECT_EQ(contents.damage, "");
      ASSERT_EQ(contents.messages.size(), 40U);
      ASSERT_EQ(contents.lost.size(), 1U);
      for (std::size_t i = 0; i < 40; ++i) {
        const MessageEntry& entry = contents.messages[i];
        EXPECT_EQ(entry.log_time, 1'000 + i);
        EXPECT_EQ(entry.is_packed(), i % 2 == 0);
        EXPECT_EQ(tensor_of(file, entry), std::string(300, static_cast<char>('a' + i % 26)));
      }
    }
  }
}

TEST(Chunks, tensors_are_aligned_in_the_file_and_in_the_chunk) {
  const std::string file = recorded_in_chunks(Compression::kZstd);
  for (const MessageEntry& entry : contents_in(file).messages) {
    std::optional<UnpackedChunk> chunk;
    if (entry.is_packed()) chunk.emplace(chunk_at(file, entry.offset));
    const std::uint64_t at = entry.is_packed() ? entry.in_chunk : entry.offset;
    const auto data = (chunk ? chunk->records() : span_of_text(file))
                          .subspan(at + kRecordHead + kMessageHead, entry.bytes - kMessageHead);
    const MessageHead head = decode_head(data.first(head_bytes_in(data, data.size())), data.size());
    EXPECT_EQ((at + kRecordHead + kMessageHead + head.tensors[0].offset) % 64, 0U);
  }
}

TEST(Chunks, a_file_that_was_cut_anywhere_has_all_whole_chunks_before) {
  const std::string whole = recorded_in_chunks(Compression::kZstd);
  const std::size_t all = contents_in(whole).messages.size();
  std::size_t before = 0;
  for (std::size_t size = kMagic.size(); size < whole.size(); ++size) {
    const Contents found = contents_in(whole.substr(0, size));
    EXPECT_GE(found.messages.size(), before) << size;
    before = found.messages.size();
    EXPECT_EQ(found.damage, "") << size;
    EXPECT_NE(found.recovered, "") << size;
  }
  EXPECT_EQ(before, all);
}

TEST(Chunks, a_damaged_chunk_is_named_and_the_others_are_read) {
  const std::string whole = recorded_in_chunks(Compression::kZstd);
  const auto messages = contents_in(whole).messages;
  const std::uint64_t chunk = messages[0].offset;
  for (std::size_t at = 0; at < 60; ++at) {
    std::string file = whole.substr(0, whole.size() - 1);
    const std::size_t place = chunk + kRecordHead + 16 + at;
    file[place] = static_cast<char>(file[place] ^ 0x41);
    const Contents contents = contents_in(file);
    EXPECT_NE(contents.damage.find("byte " + std::to_string(chunk)), std::string::npos)
        << at << contents.damage;
    EXPECT_LT(contents.messages.size(), messages.size());
    EXPECT_GE(contents.messages.size(), messages.size() / 2);
  }
}

TEST(Chunks, a_message_that_makes_no_sense_costs_no_other_in_its_chunk) {
  for (const Compression how : kEach) {
    const NamelessFile out;
    RecordingWriter writer(out.path(), true, {}, true);
    const std::uint16_t channel = writer.add_channel("topic", "", {});
    for (const std::uint16_t one : {channel, std::uint16_t{99}, channel}) {
      auto message = message_of(one, 0, "pixels", "");
      message.compression = how;
      writer.add_message(message);
    }
    writer.finish();
    const std::string file = out.bytes();
    const Contents contents = contents_in(file.substr(0, file.size() - 1));
    EXPECT_EQ(contents.messages.size(), 2U);
    EXPECT_NE(contents.damage.find("channel 99"), std::string::npos) << contents.damage;
  }
}

TEST(Chunks, names_that_are_not_UTF_8_are_written_with_escapes) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {}, true);
  for (const char* const topic : {"caf\xe9", "ok"}) {
    auto message = message_of(writer.add_channel(topic, "", {}), 0, "pixels", "");
    message.compression = Compression::kZstd;
    writer.add_message(message);
  }
  writer.finish();
  const std::string whole = out.bytes();
  for (const std::string& file : {whole, whole.substr(0, whole.size() - 1)}) {
    const Contents contents = contents_in(file);
    EXPECT_EQ(contents.recovered.empty(), file == whole);
    EXPECT_EQ(contents.damage, "");
    EXPECT_EQ(contents.channels.at(1).topic, "caf\\xe9");
    EXPECT_EQ(contents.messages.size(), 2U);
  }
}

TEST(Chunks, a_size_that_no_memory_has_is_refused) {
  std::vector<std::byte> bytes;
  encode_chunk({.bytes = std::uint64_t{1} << 62, .compression = Compression::kZstd}, bytes);
  EXPECT_THROW(UnpackedChunk(std::span(bytes).subspan(kRecordHead)), Error);
}

// One channel, and a chunk of these records, without an end.
std::string file_with(Compression how, std::span<const std::byte> records) {
  std::vector<std::byte> packed;
  compress(how, records, packed);
  std::vector<std::byte> bytes;
  RecordWriter out(bytes);
  out.raw(kMagic);
  encode(Channel{1, 0, "topic", "json", {}}, bytes);
  encode_chunk({.bytes = records.size(), .compression = how, .stored_bytes = packed.size()}, bytes);
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  return string_of(bytes);
}

std::vector<std::byte> short_message(std::uint16_t channel) {
  std::vector<std::byte> record;
  RecordWriter out(record);
  out.begin(Opcode::kMessage);
  out.number(channel);
  out.number(std::uint32_t{0});
  out.number(std::uint64_t{5});
  out.number(std::uint64_t{5});
  out.end();
  return record;
}

constexpr std::size_t kMaxKept = std::size_t{33} << 20;  // of what a small file unpacks to

TEST(Chunks, a_small_file_that_unpacks_to_many_messages_does_not_fill_the_memory) {
  const std::vector<std::byte> record = short_message(1);
  std::vector<std::byte> records;
  for (std::size_t i = 0; i < 2'000'000; ++i)
    records.insert(records.end(), record.begin(), record.end());
  const std::string file = file_with(Compression::kZstd, records);
  ASSERT_LT(file.size(), 50'000U);
  const Contents contents = contents_in(file);
  EXPECT_LT(contents.messages.size() * sizeof(MessageEntry), kMaxKept);
  EXPECT_GT(contents.messages.size(), 1'000'000U);
  EXPECT_NE(contents.damage.find("its chunks unpack to more than"), std::string::npos)
      << contents.damage;
  EXPECT_NE(contents.recovered.find("it was searched up to byte"), std::string::npos)
      << contents.recovered;
}

TEST(Chunks, a_small_file_that_unpacks_to_long_texts_does_not_fill_the_memory) {
  std::vector<std::byte> records;
  for (std::uint16_t id = 2; id < 50; ++id)
    encode(Schema{id, std::string(1 << 20, 'n'), "", ""}, records);
  const Contents schemas = contents_in(file_with(Compression::kZstd, records));
  EXPECT_LT(schemas.schemas.size(), 33U);
  EXPECT_NE(schemas.damage.find("its chunks unpack to more than"), std::string::npos);

  records.clear();
  Channel channel{2, 0, "other", "json", {}};
  for (int i = 0; i < 300'000; ++i) channel.metadata[std::to_string(i)] = "";
  encode(channel, records);
  const Contents channels = contents_in(file_with(Compression::kZstd, records));
  EXPECT_EQ(channels.channels.size(), 1U);
  EXPECT_NE(channels.damage.find("its chunks unpack to more than"), std::string::npos);
}

TEST(Chunks, a_message_that_cannot_be_added_leaves_those_before_it) {
  ChunkBuilder chunk(Compression::kZstd);
  const std::string tensor(300, 't');
  chunk.add(message_of(1, 1, tensor, "fields"));
  const std::size_t before = chunk.bytes();
  OutgoingMessage large = message_of(1, 2, tensor, "fields");
  large.runs.push_back({large.runs[0].data(), SIZE_MAX / 2});
  EXPECT_THROW(chunk.add(large), std::length_error);
  EXPECT_EQ(chunk.bytes(), before);
  std::vector<std::byte> bytes;
  std::vector<MessageEntry> entries;
  (void)chunk.finish(0, bytes, entries);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(tensor_of(string_of(bytes), entries[0]), tensor);
}

// As if an exception came before the commit: their memory goes.
TEST(Chunks, what_was_dropped_is_not_written) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {}, true);
  const std::uint16_t channel = writer.add_channel("topic", "", {});
  const std::string kept(10'000, 'k');
  writer.add_message(message_of(channel, 0, kept, ""));
  writer.commit();
  {
    const std::string gone(5'000'000, 'g');
    const std::uint16_t other = writer.add_channel("other", "", {});
    OutgoingMessage packed = message_of(other, 1, "small", "");
    packed.compression = Compression::kZstd;
    writer.add_message(packed);
    writer.add_message(message_of(other, 2, gone, ""));
    writer.drop_staged();
  }
  EXPECT_THROW(writer.commit(), Error);
  writer.finish();
  const std::string whole = out.bytes();
  for (const std::string& file : {whole, whole.substr(0, whole.size() - 1)}) {
    const Contents contents = contents_in(file);
    EXPECT_EQ(contents.recovered == "", file == whole) << contents.recovered;
    EXPECT_EQ(contents.damage, "");
    ASSERT_EQ(contents.messages.size(), 1U);
    EXPECT_EQ(tensor_of(file, contents.messages[0]), kept);
  }
}

// Of a chunk all messages are written, or none.
TEST(Chunks, where_there_is_no_room_the_file_ends_with_a_whole_chunk) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {}, true);
  const std::uint16_t channel = writer.add_channel("topic", "", {});
  const std::string tensor(10'000, 't');
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{writer.bytes() + 45'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string why;
  try {
    for (std::uint64_t i = 0; i < 6; ++i) {
      writer.add_message(message_of(channel, i, tensor, ""));
      if (i % 3 == 2) writer.commit();
    }
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_NE(why.find("3 complete messages"), std::string::npos) << why;
  writer.finish();  // for which there is room
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  const Contents contents = contents_in(out.bytes());
  EXPECT_EQ(contents.messages.size(), 3U);
  EXPECT_EQ(contents.recovered, "");
}

TEST(Chunks, a_large_chunk_is_written_before_the_end_and_all_at_the_end) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {}, true);
  const std::uint16_t channel = writer.add_channel("topic", "", {});
  const std::string tensor(400'000, 't');
  for (std::uint64_t i = 0; i < 4; ++i) {
    OutgoingMessage message = message_of(channel, i, tensor, "");
    message.compression = Compression::kLz4;
    writer.add_message(message);
    EXPECT_EQ(writer.due().has_value(), i != 2);  // the third one makes it large
    if (i == 2) writer.commit();
    EXPECT_EQ(writer.messages(), i < 2 ? 0U : 3U);
  }
  writer.finish();
  EXPECT_EQ(writer.messages(), 4U);
  EXPECT_LT(writer.bytes(), 40'000U);
  writer.finish();
  EXPECT_EQ(contents_in(out.bytes()).messages.size(), 4U);
}

}  // namespace
}  // namespace tensorbus::tensor::mcap
