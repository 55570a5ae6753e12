#include "tensorbus/link/wire/control.hpp"

#include <gtest/gtest.h>

#include <random>

#include "fuzz/control_seed.hpp"
#include "tensorbus/link/wire/control_messages.hpp"

namespace tensorbus::link {
namespace {

// The fields of a message as one value, to compare.
struct Fields {
  std::string text;
  void operator()(const auto&... fields) { (put(fields), ...); }
  void put(const Id& id) { text += id.hex() + ";"; }
  void put(const std::string& field) { text += field + ";"; }
  void put(std::unsigned_integral auto field) { text += std::to_string(field) + ";"; }
  template <typename Part>
  void put(const std::vector<Part>& parts) {
    for (const Part& part : parts) put(part);
  }
  template <HasFields Part>
  void put(Part part) {
    part.visit(*this);
  }
};

template <typename Message>
std::string fields_of(Message message) {
  Fields fields;
  message.visit(fields);
  return fields.text;
}

// Calls `check` with some of each message that there is.
template <typename Check>
void for_each_message(Check check) {
  std::mt19937 random(4);
  std::vector<std::uint8_t> bytes(4096);
  for_each_control_message([&]<typename Row>(Row) {
    SCOPED_TRACE(Row::kRow.name);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    fuzz::Input input(bytes.data(), bytes.size());
    for (int i = 0; i < 8; ++i) check(fuzz::seed_of<typename Row::Message>(input));
  });
}

TEST(ControlMessages, come_back_as_they_were) {
  for_each_message([]<typename Message>(const Message& message) {
    const std::vector<std::byte> bytes = encode_control(message);
    const ControlHeader header = decode_control_header(bytes);
    EXPECT_EQ(header.type, Message::kType);
    EXPECT_EQ(header.version, kProtocolVersion);
    EXPECT_EQ(fields_of(decode_control<Message>(bytes)), fields_of(message));
  });
}

TEST(ControlMessages, are_refused_when_cut_short_anywhere) {
  for_each_message([]<typename Message>(const Message& message) {
    const std::vector<std::byte> bytes = encode_control(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto part = std::span(bytes).first(size);
      EXPECT_THROW(decode_control_header(part), Error) << size;
      if (size < sizeof(ControlHeader)) continue;
      EXPECT_THROW(decode_control<Message>(part), Error) << size;
    }
  });
}

TEST(ControlMessages, are_refused_with_bytes_after_them) {
  for_each_message([]<typename Message>(const Message& message) {
    std::vector<std::byte> bytes = encode_control(message);
    bytes.emplace_back();
    EXPECT_THROW(decode_control_header(bytes), Error);
    EXPECT_THROW(decode_control<Message>(bytes), Error);
  });
}

TEST(ControlMessages, are_refused_or_read_whatever_their_bytes_are) {
  std::mt19937 random(4);
  for_each_message([&]<typename Message>(const Message& message) {
    const std::vector<std::byte> good = encode_control(message);
    for (int i = 0; i < 100; ++i) {
      std::vector<std::byte> bytes = good;
      for (unsigned changes = random() % 4 + 1; changes > 0; --changes)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      try {
        decode_control_header(bytes);
        decode_control<Message>(bytes);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kProtocol);
      }
    }
  });
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
