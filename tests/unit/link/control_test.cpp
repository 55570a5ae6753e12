#include "tensorbus/link/wire/control.hpp"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

namespace tensorbus::link {
namespace {

// The fields of a message as one value, to compare.
struct Fields {
  std::string text;
  void operator()(const auto&... fields) { (put(fields), ...); }
  void put(const Id& id) { text += id.hex() + ";"; }
  void put(const std::string& field) { text += field + ";"; }
  void put(std::unsigned_integral auto field) { text += std::to_string(field) + ";"; }
};

template <typename Message>
std::string fields_of(Message message) {
  Fields fields;
  message.visit(fields);
  return fields.text;
}

template <typename Message>
Message sample_of();
template <>
Hello sample_of() {
  return {Id::random(), 12, 34, 1};
}
template <>
Subscribe sample_of() {
  return {1, 2, 3, 4, 5, 1, 0x1234567890abcdefULL, std::string("a/\0b", 4)};
}
template <>
Accepted sample_of() {
  return {1, 2, 4, 8, 16, 1, 1ULL << 60};
}
template <>
Refused sample_of() {
  return {7, 3, "why not"};
}
template <>
SegmentMessage sample_of() {
  return {9, 1ULL << 40, 1};
}
template <>
Ended sample_of() {
  return {0xffffffff};
}

template <typename Message>
class ControlMessage : public ::testing::Test {};
using Messages = ::testing::Types<Hello, Subscribe, Accepted, Refused, SegmentMessage, Ended>;
TYPED_TEST_SUITE(ControlMessage, Messages);

TYPED_TEST(ControlMessage, comes_back_as_it_was) {
  const auto message = sample_of<TypeParam>();
  const std::vector<std::byte> bytes = encode_control(message);
  const ControlHeader header = decode_control_header(bytes);
  EXPECT_EQ(header.type, TypeParam::kType);
  EXPECT_EQ(header.version, kProtocolVersion);
  EXPECT_EQ(fields_of(decode_control<TypeParam>(bytes)), fields_of(message));
}

TYPED_TEST(ControlMessage, is_refused_when_cut_short_anywhere) {
  const std::vector<std::byte> bytes = encode_control(sample_of<TypeParam>());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = std::span(bytes).first(size);
    EXPECT_THROW(decode_control_header(part), Error) << size;
    if (size < sizeof(ControlHeader)) continue;
    EXPECT_THROW(decode_control<TypeParam>(part), Error) << size;
  }
}

TYPED_TEST(ControlMessage, is_refused_with_bytes_after_it) {
  std::vector<std::byte> bytes = encode_control(sample_of<TypeParam>());
  bytes.emplace_back();
  EXPECT_THROW(decode_control_header(bytes), Error);
  EXPECT_THROW(decode_control<TypeParam>(bytes), Error);
}

TYPED_TEST(ControlMessage, is_refused_or_read_whatever_its_bytes_are) {
  std::mt19937 random(4);
  const std::vector<std::byte> good = encode_control(sample_of<TypeParam>());
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = good;
    for (unsigned changes = random() % 4 + 1; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    try {
      decode_control_header(bytes);
      decode_control<TypeParam>(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kProtocol);
    }
  }
}

class ControlHeaderOf : public ::testing::Test {
 protected:
  static void refuses(auto spoil) {
    std::vector<std::byte> bytes = encode_control(Ended{1});
    ControlHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    spoil(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    EXPECT_THROW(decode_control_header(bytes), Error);
  }
};

TEST_F(ControlHeaderOf, something_else_is_refused) {
  refuses([](ControlHeader& header) { header.magic ^= 1; });
}
TEST_F(ControlHeaderOf, a_wrong_length_is_refused) {
  refuses([](ControlHeader& header) { header.length += 1; });
  refuses([](ControlHeader& header) { header.length -= 1; });
  refuses([](ControlHeader& header) { header.length = 0xffffffff; });
}
TEST_F(ControlHeaderOf, a_reserved_field_in_use_is_refused) {
  refuses([](ControlHeader& header) { header.zero = 1; });
}

TEST(ControlGrants, are_zero_or_one) {
  EXPECT_EQ(grant_of(0, "x"), memory::Grant::kRead);
  EXPECT_EQ(grant_of(1, "x"), memory::Grant::kWrite);
  for (const std::uint32_t value : {2U, 3U, 0x100U, 0xffffffffU})
    EXPECT_THROW((void)grant_of(value, "x"), Error) << value;
}

TEST(ControlStrings, a_string_longer_than_its_message_is_refused) {
  std::vector<std::byte> bytes = encode_control(Refused{1, 2, "text"});
  bytes[sizeof(ControlHeader) + 8] = std::byte{0xff};  // the string's length
  EXPECT_THROW(decode_control<Refused>(bytes), Error);
}

TEST(ControlStrings, the_longest_topic_fits_into_a_message) {
  Subscribe subscribe;
  subscribe.topic.assign(2048, 'x');
  EXPECT_LE(encode_control(subscribe).size(), kMaxControlBytes);
}

}  // namespace
}  // namespace tensorbus::link
