#include "tensorbus/platform/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tensorbus::platform {
namespace {

TEST(Utf8, is_told_from_other_bytes) {
  for (const char* text :
       {"", "weight", "\u00e9", "\u65e5\u672c", "\U0001f642", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  // A byte that begins nothing, cut short, overlong, a surrogate, above U+10FFFF.
  for (const char* text : {"\xff", "\x80", "\xe6\x97", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80", "a\xc3"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Utf8, is_made_of_any_bytes) {
  for (const char* text : {"", "weight", "\u00e9", "\U0001f642"}) EXPECT_EQ(to_utf8(text), text);
  EXPECT_EQ(to_utf8("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(to_utf8("\xe6\x97!\u00e9"), "\\xe6\\x97!\u00e9");
}

TEST(Utf8, of_a_stranger_is_quoted_so_that_a_terminal_can_be_given_it) {
  EXPECT_EQ(in_quotes("layer.0"), "'layer.0'");
  EXPECT_EQ(in_quotes("\u00e9\x1b[2J\n"), "'\u00e9?[2J?'");
  EXPECT_EQ(in_quotes("\xff!\xc2\x9bz"), "'?!??z'");
  EXPECT_EQ(in_quotes(std::string(1000, 'x')), "'" + std::string(59, 'x') + "...'");
}

}  // namespace
}  // namespace tensorbus::platform
