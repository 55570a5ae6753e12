#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>

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
using test::recorded;
using test::span_of_text;

Contents contents_of(const std::string& file) { return read_contents(Content(file).bytes()); }

std::span<const std::byte> data_of(const std::string& file, const MessageEntry& entry) {
  return span_of_text(file).subspan(entry.offset + kRecordHead + kMessageHead,
                                    entry.bytes - kMessageHead);
}

MessageHead head_of(const std::string& file, const MessageEntry& entry) {
  const auto data = data_of(file, entry);
  return decode_head(data.first(head_bytes_in(data, data.size())), data.size());
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal_of(const std::string& file) {
  try {
    (void)contents_of(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(RecordingTest, the_checksum_is_that_of_zlib) {
  EXPECT_EQ(crc32(span_of_text("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32(span_of_text("6789"), crc32(span_of_text("12345"))), 0xCBF43926U);
  EXPECT_EQ(crc32({}), 0U);
}

TEST(RecordingTest, what_was_written_is_found_by_the_index) {
  const std::string file = recorded();
  const Contents contents = contents_of(file);
  EXPECT_EQ(contents.recovered, "");
  EXPECT_EQ(contents.damage, "");
  EXPECT_EQ(contents.about.at("version"), "test");
  ASSERT_EQ(contents.channels.size(), 2U);
  EXPECT_EQ(contents.channels.at(1).topic, "one");
  EXPECT_EQ(contents.channels.at(1).metadata.at("node"), "n");
  EXPECT_EQ(contents.schemas.at(contents.channels.at(1).schema).name, "robot.One");
  EXPECT_EQ(contents.channels.at(2).schema, 0);
  ASSERT_EQ(contents.lost.size(), 1U);
  EXPECT_EQ(contents.lost[0].first, 1U);
  EXPECT_EQ(contents.lost[0].count, 3U);
  ASSERT_EQ(contents.messages.size(), 3U);

  const MessageHead head = head_of(file, contents.messages[0]);
  EXPECT_EQ(head.fingerprint, 7U);
  EXPECT_EQ(head.sequence, 0U);
  EXPECT_EQ(text_of(head.fields), "fields");
  ASSERT_EQ(head.tensors.size(), 1U);
  EXPECT_EQ(head.tensors[0].layout, Layout::contiguous(DType::kUInt8, {300}));
  const auto data = data_of(file, contents.messages[0]);
  EXPECT_EQ(text_of(data.subspan(head.tensors[0].offset, 300)), std::string(300, 'x'));
  EXPECT_EQ(head_of(file, contents.messages[1]).tensors[0].layout.shape[0], 0);
  EXPECT_EQ(contents.messages[2].log_time, 1'009U);
}

TEST(RecordingTest, tensors_are_aligned_in_the_file) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {});
  const std::uint16_t channel = writer.add_channel("topic", "", {});
  const std::string large(std::size_t{1} << 20, 'l');
  OutgoingMessage message = message_of(channel, 0, "small", "odd");
  message.head.tensors.push_back({Layout::contiguous(DType::kUInt8, {1 << 20}), 0});
  message.run_of.push_back(1);
  message.runs.push_back(span_of_text(large));
  writer.add_message(message);
  writer.finish();
  const std::string file = out.bytes();
  const MessageEntry entry = contents_of(file).messages.at(0);
  const MessageHead head = head_of(file, entry);
  const std::uint64_t data_at = entry.offset + kRecordHead + kMessageHead;
  EXPECT_EQ((data_at + head.tensors[0].offset) % 64, 0U);
  EXPECT_EQ((data_at + head.tensors[1].offset) % 4096, 0U);
  EXPECT_EQ(file.substr(data_at + head.tensors[1].offset, large.size()), large);
}

TEST(RecordingTest, a_file_that_was_cut_anywhere_has_all_messages_before) {
  const std::string whole = recorded();
  const auto messages = contents_of(whole).messages;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    if (size < kMagic.size()) {
      EXPECT_NE(refusal_of(cut), "") << size;
      continue;
    }
    const Contents found = contents_of(cut);
    const auto expected = std::ranges::count_if(messages, [size](const MessageEntry& entry) {
      return entry.offset + kRecordHead + entry.bytes <= size;
    });
    ASSERT_EQ(std::ssize(found.messages), expected) << size;
    EXPECT_NE(found.recovered, "") << size;
    EXPECT_EQ(found.damage, "") << size;
  }
}

TEST(RecordingTest, a_file_that_was_not_finished_has_what_was_lost_too) {
  const Contents contents = contents_of(recorded(true));
  EXPECT_EQ(contents.messages.size(), 3U);
  ASSERT_EQ(contents.lost.size(), 1U);
  EXPECT_EQ(contents.lost[0].count, 3U);
  EXPECT_EQ(contents.recovered, "it has no index at its end: its recorder has not finished it");
}

TEST(RecordingTest, a_head_says_on_which_device_a_tensor_was) {
  const std::string file = recorded();
  const Contents contents = contents_of(file);
  EXPECT_EQ(head_of(file, contents.messages[0]).tensors[0].published_on, Device::host());
  const MessageHead head = head_of(file, contents.messages[2]);
  EXPECT_EQ(head.tensors[0].published_on, Device::cuda(513));
  std::vector<std::byte> bytes;
  encode_head(head, bytes);
  bytes.insert(bytes.end(), head.fields.begin(), head.fields.end());
  bytes[51] = std::byte{2};  // of a kind that is not known; the checksum is right
  const std::uint32_t crc = crc32(std::span(bytes).subspan(8));
  std::memcpy(bytes.data() + 4, &crc, sizeof crc);
  EXPECT_THROW((void)decode_head(bytes, 4096), Error);
}

TEST(RecordingTest, what_is_lost_may_say_why) {
  const NamelessFile file;
  RecordingWriter writer(file.path(), true, {});
  const auto channel = writer.add_channel("one", "", {});
  writer.add_lost({channel, 1, 3, 1'003, "no room for a copy"});
  writer.add_message(message_of(channel, 4, "", ""));
  writer.add_lost({channel, 5, 2, 1'004});
  writer.add_lost({channel, 8, 1, 1'005, "its owner was killed"});
  writer.commit();
  const std::string killed = file.bytes();
  writer.finish();
  for (const bool finished : {true, false}) {
    const Contents contents = contents_of(finished ? file.bytes() : killed);
    ASSERT_EQ(contents.lost.size(), 3U);
    EXPECT_EQ(contents.lost[0].count, 3U);
    EXPECT_EQ(contents.lost[0].why, "no room for a copy");
    EXPECT_EQ(contents.lost[1].why, "");
    EXPECT_EQ(contents.lost[2].why, "its owner was killed");
    EXPECT_EQ(contents.damage, "");
    EXPECT_EQ(contents.recovered.empty(), finished);
  }
}

TEST(RecordingTest, a_changed_byte_of_a_head_is_found) {
  const std::string whole = recorded();
  const MessageEntry entry = contents_of(whole).messages[0];
  const std::size_t begin = entry.offset + kRecordHead + kMessageHead;
  const std::size_t bytes = head_bytes(head_of(whole, entry));
  for (std::size_t at = begin; at < begin + bytes; ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_THROW((void)head_of(changed, entry), Error) << at - begin;
  }
}

TEST(RecordingTest, a_damaged_end_is_made_up_for_by_a_search) {
  const std::string whole = recorded();
  for (std::size_t back = 1; back < 60; ++back) {
    std::string changed = whole;
    changed[changed.size() - back] = static_cast<char>(changed[changed.size() - back] ^ 0x10);
    const Contents contents = contents_of(changed);
    EXPECT_EQ(contents.messages.size(), 3U) << back;
    EXPECT_EQ(contents.damage, "") << back;
  }
}

TEST(RecordingTest, damage_in_the_middle_is_named) {
  std::string file = recorded();
  const MessageEntry entry = contents_of(file).messages[1];
  file[entry.offset] = '\x02';  // a footer
  file.resize(file.size() - 1);
  const Contents contents = contents_of(file);
  EXPECT_EQ(contents.messages.size(), 2U);
  EXPECT_NE(contents.damage.find("byte " + std::to_string(entry.offset)), std::string::npos)
      << contents.damage;
}

// An attachment as another program may write it, with bytes behind its fields.
std::string attachment(const std::string& name, const std::string& data, const std::string& more) {
  std::vector<std::byte> bytes;
  RecordWriter out(bytes);
  out.begin(Opcode::kAttachment);
  out.number(std::uint64_t{1});
  out.number(std::uint64_t{2});
  out.text(name);
  out.text("text/plain");
  out.number(std::uint64_t{data.size()});
  out.raw(data);
  out.number(std::uint32_t{0});
  out.raw(more);
  out.end();
  return text_of(bytes);
}

std::string record_of(std::uint8_t opcode, const std::string& content) {
  std::vector<std::byte> bytes;
  RecordWriter out(bytes);
  out.begin(static_cast<Opcode>(opcode));
  out.raw(content);
  out.end();
  return text_of(bytes);
}

// Puts a record before the second message of a file that was not finished.
Contents contents_with(const std::string& record) {
  std::string file = recorded(true);
  file.insert(contents_of(file).messages[1].offset, record);
  return contents_of(file);
}

TEST(RecordingTest, records_that_MCAP_may_add_or_extend_are_no_damage) {
  const std::string long_name(5'000, 'n');
  for (const std::string& record :
       {attachment("notes", "text", "a field of a later version"), attachment(long_name, "", ""),
        attachment(long_name, std::string(70'000, 'd'), ""), record_of(0x10, "a later record"),
        record_of(0x7f, ""), record_of(0xc0, "of an application")}) {
    const Contents contents = contents_with(record);
    EXPECT_EQ(contents.damage, "");
    EXPECT_EQ(contents.messages.size(), 3U);
  }
}

TEST(RecordingTest, metadata_of_other_programs_may_have_any_form_and_size) {
  std::vector<std::byte> bytes;
  RecordWriter out(bytes);
  out.begin(Opcode::kMetadata);
  out.text("calibration");
  out.raw(std::string(kMaxSmallBytes + 1, 'x'));
  out.end();
  const Contents contents = contents_with(text_of(bytes));
  EXPECT_EQ(contents.damage, "");
  EXPECT_EQ(contents.messages.size(), 3U);
}

TEST(RecordingTest, an_attachment_that_is_longer_than_its_record_is_damage) {
  std::string record = attachment("notes", "text", "");
  const std::size_t data_size = record.size() - sizeof(std::uint32_t) - 4 - sizeof(std::uint64_t);
  record[data_size] = 9;
  EXPECT_NE(contents_with(record).damage.find("longer than its record"), std::string::npos);
}

TEST(RecordingTest, a_schema_without_a_number_is_ignored) {
  std::vector<std::byte> bytes;
  encode(Schema{0, "none", "tensorbus", "none"}, bytes);
  const Contents contents = contents_with(text_of(bytes));
  EXPECT_EQ(contents.damage, "");
  EXPECT_FALSE(contents.schemas.contains(0));
}

// Names in C++ may be of any bytes.
TEST(RecordingTest, names_that_are_not_UTF_8_are_written_with_escapes) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {{"domain", "/tmp/caf\xe9"}});
  writer.add_message(message_of(writer.add_channel("caf\xe9", "", {{"node", "\xff"}}), 0, "x", ""));
  writer.add_lost({1, 1, 2, 1'003, "caf\xe9"});
  writer.add_message(message_of(writer.add_channel("ok", "", {}), 4, "y", ""));
  writer.finish();
  const std::string whole = out.bytes();
  for (const std::string& file : {whole, whole.substr(0, whole.size() - 1)}) {
    const Contents contents = contents_of(file);
    EXPECT_EQ(contents.recovered.empty(), file == whole);
    EXPECT_EQ(contents.damage, "");
    EXPECT_EQ(contents.about.at("domain"), "/tmp/caf\\xe9");
    EXPECT_EQ(contents.channels.at(1).topic, "caf\\xe9");
    EXPECT_EQ(contents.channels.at(1).metadata.at("node"), "\\xff");
    EXPECT_EQ(contents.channels.at(2).topic, "ok");
    EXPECT_EQ(contents.lost.at(0).why, "caf\\xe9");
    EXPECT_EQ(contents.messages.size(), 2U);
  }
}

// Returns the file with the summary's records of this kind twice, and without its checksum.
std::string with_twice(const std::string& file, Opcode wanted) {
  RecordCursor footer(span_of_text(file).last(kFooterBytes + kMagic.size()));
  const auto begin = footer.number<std::uint64_t>();
  std::string changed = file.substr(0, begin);
  RecordCursor cursor(span_of_text(file).subspan(begin, file.size() - kEndBytes - begin));
  while (cursor.left() > 0) {
    const std::size_t at = file.size() - kEndBytes - cursor.left();
    const auto opcode = static_cast<Opcode>(cursor.number<std::uint8_t>());
    const auto bytes = cursor.number<std::uint64_t>();
    (void)cursor.take(bytes);
    for (int i = 0; i < (opcode == wanted ? 2 : 1); ++i)
      changed += file.substr(at, kRecordHead + bytes);
  }
  changed += file.substr(file.size() - kEndBytes);
  std::fill_n(changed.end() - static_cast<std::ptrdiff_t>(kMagic.size() + 4), 4, '\0');
  return changed;
}

TEST(RecordingTest, a_summary_that_names_a_record_twice_is_not_used) {
  EXPECT_EQ(contents_of(with_twice(recorded(), Opcode::kFooter)).recovered, "");  // none twice
  for (const Opcode opcode : {Opcode::kAttachmentIndex, Opcode::kMetadataIndex}) {
    const Contents contents = contents_of(with_twice(recorded(), opcode));
    EXPECT_NE(contents.recovered.find("out of order"), std::string::npos) << contents.recovered;
    EXPECT_EQ(contents.damage, "");
    EXPECT_EQ(contents.messages.size(), 3U);
  }
}

TEST(RecordingTest, other_files_are_refused_with_a_reason) {
  EXPECT_EQ(refusal_of(""), "it is no recording: it has only 0 bytes");
  EXPECT_EQ(refusal_of(std::string(100, 'x')),
            "it is no recording: it does not begin like an MCAP file");
  EXPECT_EQ(refusal_of("\x89MCAP1\r\n0000"), "it is an MCAP file of another version than 0");
}

TEST(RecordingTest, an_index_is_written_every_65536_messages) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {});
  const std::uint16_t channel = writer.add_channel("topic", "", {});
  constexpr std::uint64_t kCount = 150'000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    writer.add_message(message_of(channel, i, "t", ""));
    if (i % 1000 == 999) writer.commit();
  }
  writer.finish();
  const std::string file = out.bytes();
  const Contents contents = contents_of(file);
  EXPECT_EQ(contents.recovered, "");
  ASSERT_EQ(contents.messages.size(), kCount);
  EXPECT_EQ(head_of(file, contents.messages.back()).sequence, kCount - 1);
  const Contents searched = contents_of(file.substr(0, file.size() - 1));
  EXPECT_EQ(searched.messages.size(), kCount);
}

// A limit for files is met as a full disk is.
TEST(RecordingTest, where_there_is_no_room_the_file_ends_with_a_whole_message) {
  const NamelessFile out;
  RecordingWriter writer(out.path(), true, {});
  const std::uint16_t channel = writer.add_channel("topic", "", {});
  const std::string tensor(10'000, 't');
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{writer.bytes() + 25'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string why;
  try {
    for (std::uint64_t i = 0; i < 5; ++i) {
      writer.add_message(message_of(channel, i, tensor, ""));
      writer.commit();
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory);
    why = error.what();
  }
  EXPECT_NE(why.find("2 complete messages"), std::string::npos) << why;
  EXPECT_THROW(writer.commit(), Error);
  writer.finish();  // for which there is room
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  const Contents contents = contents_of(out.bytes());
  EXPECT_EQ(contents.messages.size(), 2U);
  EXPECT_EQ(contents.recovered, "");
}

}  // namespace
}  // namespace tensorbus::tensor::mcap
