#include <gtest/gtest.h>

#include <set>
#include <tensorbus/values/id.hpp>
#include <unordered_set>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

TEST(Id, is_written_as_32_lower_case_hex_digits) {
  Id id;
  for (std::size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<std::uint8_t>(i * 17);
  EXPECT_EQ(id.hex(), "00112233445566778899aabbccddeeff");
  EXPECT_EQ(Id::parse("00112233445566778899aabbccddeeff"), id);
}

TEST(Id, is_read_back_from_what_it_wrote) {
  for (int i = 0; i < 100; ++i) {
    const Id id = Id::random();
    EXPECT_EQ(Id::parse(id.hex()), id);
  }
}

TEST(Id, refuses_other_lengths_and_other_characters) {
  const std::string good = "00112233445566778899aabbccddeeff";
  EXPECT_FALSE(Id::parse(""));
  EXPECT_FALSE(Id::parse(good.substr(1)));
  EXPECT_FALSE(Id::parse(good + "0"));
  for (std::size_t i = 0; i < good.size(); ++i)
    for (const char wrong : {'g', 'A', '/', ':', ' ', '\0', '\xff'}) {
      std::string bad = good;
      bad[i] = wrong;
      EXPECT_FALSE(Id::parse(bad)) << bad;
    }
}

TEST(Id, two_random_ones_differ) {
  std::set<Id> ordered;
  std::unordered_set<Id> hashed;
  for (int i = 0; i < 1000; ++i) {
    const Id id = Id::random();
    ordered.insert(id);
    hashed.insert(id);
  }
  EXPECT_EQ(ordered.size(), 1000U);
  EXPECT_EQ(hashed, std::unordered_set<Id>(ordered.begin(), ordered.end()));
}

TEST(Id, a_forked_child_draws_other_ones_than_its_parent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  test::Child child([&] {
    const Id id = Id::random();
    return ::write(ends[1], id.bytes.data(), 16) == 16;
  });
  const Id ours = Id::random();
  Id its;
  ASSERT_EQ(::read(ends[0], its.bytes.data(), 16), 16);
  EXPECT_NE(ours, its);
  EXPECT_EQ(child.wait(), "exit 0");
  for (const int fd : ends) ::close(fd);
}

}  // namespace
}  // namespace tensorbus
