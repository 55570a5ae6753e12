#include "tensorbus/bus/domain/topic_name.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

bool is_a_plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 160 && name[0] != '.' &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             "-_.%~") == std::string::npos;
}

TEST(TopicName, plain_names_stand_for_themselves) {
  EXPECT_EQ(escape_topic("camera_2-left.raw"), "camera_2-left.raw");
}

TEST(TopicName, everything_else_is_escaped) {
  EXPECT_EQ(escape_topic("camera/image"), "camera%2Fimage");
  EXPECT_EQ(escape_topic("/"), "%2F");
  EXPECT_EQ(escape_topic("a%2Fb"), "a%252Fb");
  EXPECT_EQ(escape_topic("a@b~"), "a%40b%7E");
  EXPECT_EQ(escape_topic(std::string("\0\n", 2)), "%00%0A");
  EXPECT_EQ(escape_topic("größe"), "gr%C3%B6%C3%9Fe");
}

TEST(TopicName, no_name_is_hidden_or_leaves_the_directory) {
  EXPECT_EQ(escape_topic(".hidden"), "%2Ehidden");
  EXPECT_EQ(escape_topic("."), "%2E");
  EXPECT_EQ(escape_topic(".."), "%2E.");
  EXPECT_EQ(escape_topic("../../etc"), "%2E.%2F..%2Fetc");
}

TEST(TopicName, an_empty_or_endless_name_is_refused) {
  EXPECT_THROW(escape_topic(""), Error);
  EXPECT_NO_THROW(escape_topic(std::string(2048, 'x')));
  EXPECT_THROW(escape_topic(std::string(2049, 'x')), Error);
}

TEST(TopicName, a_long_name_is_cut_and_still_tells_itself_from_others) {
  const std::string longest(160, 'x');
  EXPECT_EQ(escape_topic(longest), longest);
  const std::string a = escape_topic(longest + "a");
  const std::string b = escape_topic(longest + "b");
  EXPECT_TRUE(is_a_plain_file_name(a));
  EXPECT_NE(a, b);
  EXPECT_EQ(a.substr(0, 120), longest.substr(0, 120));
  const std::string slashes(100, '/');  // 300 bytes when escaped
  EXPECT_TRUE(is_a_plain_file_name(escape_topic(slashes)));
}

TEST(TopicName, no_two_names_become_one) {
  std::mt19937 random(5);
  const std::string letters = "ab./%~@_\0\xff\xc3%2F";
  std::map<std::string, std::string> known;
  for (int i = 0; i < 100'000; ++i) {
    std::string topic;
    const std::size_t length = random() % 50 == 0 ? 1 + random() % 200 : 1 + random() % 6;
    for (std::size_t k = 0; k < length; ++k) topic += letters[random() % letters.size()];
    const std::string escaped = escape_topic(topic);
    ASSERT_TRUE(is_a_plain_file_name(escaped)) << escaped;
    ASSERT_EQ(known.emplace(escaped, topic).first->second, topic) << escaped;
  }
}

TEST(MarkerName, says_whose_it_is) {
  const Id id = Id::random();
  for (const char* topic : {"plain", "a@b.c/d", ".x.pub", "größe"}) {
    const std::string escaped = escape_topic(topic);
    const std::string name = marker_name(escaped, id, 4'000'000'000U);
    const auto marker = parse_marker(name);
    ASSERT_TRUE(marker) << name;
    EXPECT_EQ(marker->escaped_topic, escaped);
    EXPECT_EQ(marker->participant, id);
    EXPECT_EQ(marker->publisher, 4'000'000'000U);
    EXPECT_EQ(owner_of_file(name), id);
  }
}

TEST(MarkerName, the_longest_fits_into_a_file_name) {
  const std::string escaped = escape_topic(std::string(2048, '/'));
  EXPECT_LE(marker_name(escaped, Id::random(), 0xffffffff).size(), 255U);
}

TEST(MarkerName, other_files_are_nobodys) {
  const std::string id = Id::random().hex();
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".pub"),
        std::string(".sock"), std::string(".tmp"), std::string("..tmp"), id, id + ".pub",
        "@" + id + ".1.pub", "t@" + id + ".pub", "t@" + id + ".x.pub", "t@" + id + ".1.pub.bak",
        "t@" + id.substr(1) + ".1.pub", "t@" + id + "..pub", "t@" + id + ".4294967296.pub"}) {
    EXPECT_FALSE(parse_marker(name)) << name;
    EXPECT_FALSE(owner_of_file(name)) << name;
  }
}

TEST(SocketName, belongs_to_its_participant) {
  const Id id = Id::random();
  EXPECT_EQ(owner_of_file(socket_name(id)), id);
  EXPECT_EQ(owner_of_file(temporary_socket_name(id)), id);
  EXPECT_TRUE(is_socket_name(socket_name(id)));
  EXPECT_FALSE(is_socket_name(temporary_socket_name(id)));
  EXPECT_FALSE(owner_of_file("x.sock"));
}

}  // namespace
}  // namespace tensorbus::bus
