#include "tensorbus/tensor/files/json_reader.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::tensor {
namespace {

using test::error_of;

std::string text_in(std::string_view json) {
  JsonReader reader("header", json);
  std::string text = reader.text();
  reader.end();
  return text;
}

TEST(JsonReader, reads_what_is_in_an_object) {
  JsonReader reader("header", " {\"a\" : [1, 2 ,0],\n\"b\":\"c\", \"d\": {}, \"e\": []}\t");
  std::string seen;
  reader.object([&](const std::string& name) {
    seen += name;
    if (name == "b")
      seen += reader.text();
    else if (name == "d")
      reader.object([](const std::string&) { FAIL(); });
    else
      reader.list([&] { seen += std::to_string(reader.try_number().value()); });
  });
  reader.end();
  EXPECT_EQ(seen, "a120bcde");
}

TEST(JsonReader, reads_texts_with_all_that_can_be_escaped) {
  EXPECT_EQ(text_in(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(text_in(R"("\u0041\u00e9\u65e5\ud83d\ude42\uFFFF")"), "A\u00e9\u65e5\U0001f642\uffff");
  EXPECT_EQ(text_in("\"\u65e5\u672c\""), "\u65e5\u672c");
  EXPECT_EQ(text_in(R"("a\u0000b")"), std::string("a\0b", 3));
  EXPECT_EQ(text_in(R"("")"), "");
}

TEST(JsonReader, refuses_texts_that_are_none) {
  for (const auto& [json, why] : {std::pair<std::string, const char*>{"", "a text"},
                                  {"'a'", "a text"},
                                  {"\"a", "the end of a text"},
                                  {"\"a\nb\"", "the end of a text"},
                                  {std::string("\"a\0\"", 4), "the end of a text"},
                                  {R"("\x41")", "behind a backslash"},
                                  {"\"\\", "behind a backslash"},
                                  {R"("\u12")", "hexadecimal"},
                                  {R"("\u00g0")", "hexadecimal"},
                                  {R"("\u-001")", "hexadecimal"},
                                  {R"("\ud800")", "surrogates"},
                                  {R"("\ud800a")", "surrogates"},
                                  {R"("\ud800\u0041")", "surrogates"},
                                  {R"("\udc00\ud800")", "surrogates"},
                                  {"\"\xff\"", "UTF-8"},
                                  {"\"\xed\xa0\x80\"", "UTF-8"}}) {
    std::string message;
    EXPECT_EQ(error_of([&] { text_in(json); }, &message), "InvalidArgument") << json;
    EXPECT_NE(message.find(why), std::string::npos) << json << ": " << message;
    EXPECT_TRUE(message.starts_with("header: byte ")) << message;
  }
}

TEST(JsonReader, takes_whole_numbers_and_nothing_else) {
  const auto number_in = [](std::string_view json) {
    return JsonReader("header", json).try_number();
  };
  EXPECT_EQ(number_in(" 0"), 0);
  EXPECT_EQ(number_in("9223372036854775807,"), INT64_MAX);
  for (const char* json :
       {"", "-1", "-0", "+1", "01", "00", "1.0", "1e3", "1E3", "0x1", "1_0", "9223372036854775808",
        "99999999999999999999999", "true", "\"1\"", "[1]"})
    EXPECT_EQ(number_in(json), std::nullopt) << json;
}

TEST(JsonReader, skips_a_value_of_any_kind) {
  const auto skip = [](const std::string& json) {
    JsonReader reader("header", json);
    reader.skip_value(3);
    reader.end();
  };
  for (const char* json :
       {"null", "true", " false ", "0", "-0", "-12.50", "1e9", "2.5E-3", "1E+5", R"("\u0000\"")",
        "[]", "{}", R"([1, "]", {"a": {}}])", R"({"a": [null, [0.5]], "a": 1})", "[[[0]]]"})
    EXPECT_EQ(error_of([&] { skip(json); }), "nothing thrown") << json;
  for (const char* json :
       {"",     "nul", "True", "NaN",     "-",     "-a",  "01",          "1.",
        ".5",   "1e",  "1e+",  "+1",      "0x1",   "'a'", R"("\ud800")", "\"",
        "[1,]", "[",   "[1",   "{\"a\"}", "{1:2}", "]",   "1 2",         "[[[[0]]]]"})
    EXPECT_EQ(error_of([&] { skip(json); }), "InvalidArgument") << json;
}

TEST(JsonReader, refuses_objects_and_lists_that_are_not_whole) {
  const auto read = [](std::string_view json) {
    JsonReader reader("header", json);
    if (reader.next() == '[')
      reader.list([&] { (void)reader.try_number(); });
    else
      reader.object([&](const std::string&) { (void)reader.try_number(); });
    reader.end();
  };
  EXPECT_EQ(error_of([&] { read("{\"a\": 1}"); }), "nothing thrown");
  for (const char* json :
       {"", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{\"a\" 1}", "{a:1}",
        "{\"a\":1} x", "{}{}", "[", "[1", "[1,2", "[1 2]", "[1]]", "}"})
    EXPECT_EQ(error_of([&] { read(json); }), "InvalidArgument") << json;
}

}  // namespace
}  // namespace tensorbus::tensor
