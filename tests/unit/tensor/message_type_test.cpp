#include <gtest/gtest.h>

#include <tensorbus/values/message_type.hpp>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {
namespace {

constexpr const char* kDetection = "robot.Detection\nboxes: array\nlabel: str = ...";

TEST(MessageType, is_a_name_and_fields) {
  const MessageType type(kDetection);
  EXPECT_EQ(type.name(), "robot.Detection");
  EXPECT_EQ(type.definition(), kDetection);
  EXPECT_FALSE(type.is_any());
  EXPECT_EQ(MessageType("robot.Empty").name(), "robot.Empty");
}

TEST(MessageType, of_any_message_has_no_fingerprint) {
  EXPECT_TRUE(MessageType().is_any());
  EXPECT_EQ(MessageType().fingerprint(), 0U);
}

// Of http://www.isthe.com/chongo/tech/comp/fnv: the 64-bit FNV-1a of "a" and "foobar".
TEST(MessageType, has_the_fnv_1a_of_its_definition_for_a_fingerprint) {
  EXPECT_EQ(MessageType("a").fingerprint(), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(MessageType("foobar").fingerprint(), 0x85944171f73967e8U);
}

TEST(MessageType, has_a_fingerprint_that_tells_types_from_one_another_and_knows_no_defaults) {
  const MessageType type(kDetection);
  EXPECT_EQ(type.fingerprint(),
            MessageType("robot.Detection\nboxes: array\nlabel: str").fingerprint());
  EXPECT_NE(type.fingerprint(),
            MessageType("robot.Detection\nboxes: tensor\nlabel: str").fingerprint());
  EXPECT_NE(type.fingerprint(), MessageType("robot.Detection\nboxes: array").fingerprint());
  EXPECT_NE(type.fingerprint(),
            MessageType("other.Detection\nboxes: array\nlabel: str").fingerprint());
}

TEST(MessageType, is_not_one_whose_name_ends_like_a_default) {
  const MessageType type("m\na: int");
  const MessageType other("m = ...\na: int");
  EXPECT_NE(type.fingerprint(), other.fingerprint());
  EXPECT_NE(type.why_not(other), "");
}

TEST(MessageType, refuses_what_is_no_definition) {
  for (const char* text :
       {"", "\n", "\na: int", "name\n", "name\nfield", "name\n: int",
        "name\na: ", "name\na: int\na: int", "name\na:  = ...", "a: int\nb: int"})
    EXPECT_THROW(MessageType{text}, Error) << text;
}

std::string why_not(const char* expected, const char* published) {
  return MessageType(expected).why_not(MessageType(published));
}

TEST(MessageType, reads_its_own_messages_and_any) {
  EXPECT_EQ(why_not(kDetection, kDetection), "");
  EXPECT_EQ(MessageType(kDetection).why_not(MessageType()), "");
  EXPECT_EQ(MessageType().why_not(MessageType(kDetection)), "");
}

TEST(MessageType, reads_messages_without_a_field_that_has_a_default) {
  EXPECT_EQ(why_not("m\na: int\nb: str = ...", "m\na: int"), "");
  EXPECT_EQ(why_not("m\na: int\nb: str", "m\na: int"), "m.b is not published, and has no default");
}

TEST(MessageType, reads_messages_with_more_fields) {
  EXPECT_EQ(why_not("m\na: int", "m\na: int\nb: str\nc: any"), "");
}

TEST(MessageType, reads_no_messages_with_another_name_or_a_field_of_another_type) {
  EXPECT_EQ(why_not("m\na: int", "n\na: int"), "expected m, published is n");
  EXPECT_EQ(why_not("m\na: int = ...", "m\na: str"), "m.a: expected int, published is str");
}

}  // namespace
}  // namespace tensorbus
