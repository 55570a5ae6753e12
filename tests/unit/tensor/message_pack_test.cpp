#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tensorbus/values/value.hpp>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using Bytes = Value::Bytes;

Bytes raw(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}
Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
Bytes filled(std::size_t count, int value) { return Bytes(count, static_cast<std::byte>(value)); }

std::string outcome_of_reading(const Bytes& bytes) {
  return test::error_of([&] { (void)Value::decode(bytes); });
}

Value nested(int levels, const auto& wrap) {
  Value value;
  for (int i = 0; i < levels; ++i) value = wrap(std::move(value));
  return value;
}
const auto kInList = [](Value value) -> Value { return Value::List{std::move(value)}; };
const auto kInMap = [](Value value) -> Value { return Value::Map{{"key", std::move(value)}}; };
const auto kAsKey = [](Value value) -> Value { return Value::Map{{std::move(value), 1}}; };
const auto kInTuple = [](Value value) -> Value { return Value::Tuple{{std::move(value)}}; };

const std::vector<Value>& samples() {
  static const std::vector<Value> values = {
      nullptr,
      true,
      false,
      0,
      1,
      127,
      128,
      255,
      256,
      -1,
      -32,
      -33,
      -128,
      -129,
      65535,
      65536,
      std::numeric_limits<std::int64_t>::max(),
      std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::uint64_t>::max(),
      0.0,
      -0.5,
      1e300,
      std::numeric_limits<double>::infinity(),
      std::numeric_limits<double>::denorm_min(),
      "",
      "text",
      std::string("with\0zero", 9),
      std::string(31, 'a'),
      std::string(32, 'b'),
      std::string(255, 'c'),
      std::string(256, 'd'),
      std::string(65535, 'e'),
      std::string(65536, 'f'),
      Bytes{},
      filled(255, 1),
      filled(256, 2),
      filled(65536, 3),
      Value::List{},
      Value::List(15, 1),
      Value::List(16, 2),
      Value::List(65536, nullptr),
      Value::Map{},
      Value::Map(15, {1, 2}),
      Value::Map(16, {"k", 2}),
      Value::Map(65536, {1, 2}),
      Value::Tuple{},
      Value::Tuple{{1, "two", Value::List{3.0}}},
      TensorIndex{0},
      TensorIndex{0xffffffff},
      Value::Extension{-1, raw({1, 2, 3})},
      Value::Extension{127, {}},
      Value::Extension{5, filled(256, 4)},
      Value::Extension{5, filled(70000, 5)},
      Value::Map{{"image", TensorIndex{0}},
                 {"box", Value::Tuple{{1, 2, TensorIndex{1}}}},
                 {Value::Tuple{{1}}, Value::Map{{nullptr, Value::List{true}}}}}};
  return values;
}

TEST(MessagePack, reads_back_what_it_wrote) {
  for (const Value& value : samples()) EXPECT_EQ(Value::decode(value.encode()), value);
  EXPECT_TRUE(std::isnan(Value::decode(Value(std::nan("")).encode()).as<double>()));
}

using internal::PackCursor;

TEST(MessagePack, is_read_without_a_value_where_one_kind_is_expected) {
  for (const Value& value : samples()) {
    const Bytes packed = value.encode();
    const auto text = PackCursor(packed).string();
    ASSERT_EQ(text.has_value(), value.is<std::string>());
    EXPECT_TRUE(!text || *text == value.as<std::string>());
    const auto bytes = PackCursor(packed).bytes();
    ASSERT_EQ(bytes.has_value(), value.is<Bytes>());
    EXPECT_TRUE(!bytes || std::ranges::equal(*bytes, value.as<Bytes>()));
    const auto pairs = PackCursor(packed).map();
    ASSERT_EQ(pairs.has_value(), value.is<Value::Map>());
    EXPECT_TRUE(!pairs || *pairs == value.as<Value::Map>().size());
    const auto tensor = PackCursor(packed).tensor();
    ASSERT_EQ(tensor.has_value(), value.is<TensorIndex>());
    EXPECT_TRUE(!tensor || *tensor == value.as<TensorIndex>().index);
  }
}

TEST(MessagePack, is_read_token_by_token) {
  using Kind = internal::PackToken::Kind;
  for (const Value& value : samples()) {
    const Bytes packed = value.encode();
    PackCursor cursor(packed);
    const auto token = cursor.token();
    ASSERT_TRUE(token);
    EXPECT_EQ(token->kind == Kind::kText, value.is<std::string>());
    EXPECT_EQ(token->kind == Kind::kBytes, value.is<Bytes>());
    EXPECT_EQ(token->kind == Kind::kMap, value.is<Value::Map>());
    EXPECT_EQ(token->kind == Kind::kList, value.is<Value::List>());
    EXPECT_EQ(token->kind == Kind::kFloat, value.is<double>());
    EXPECT_EQ(token->kind == Kind::kBool, value.is<bool>());
    EXPECT_EQ(token->kind == Kind::kNil, value.is<std::nullptr_t>());
    if (value.is<Value::List>()) {
      EXPECT_EQ(token->number, value.as<Value::List>().size());
    }
    const std::size_t read = packed.size() - cursor.left();
    for (std::size_t size = 0; size < std::min<std::size_t>(read, 300); ++size)
      EXPECT_FALSE(PackCursor(std::span(packed).first(size)).token());
  }
}

TEST(MessagePack, is_skipped_value_by_value) {
  for (const Value& value : samples()) {
    const Bytes packed = Value(Value::List{value, "behind"}).encode();
    PackCursor cursor(packed);
    ASSERT_EQ(cursor.list(), 2U);
    const PackCursor before = cursor;
    ASSERT_TRUE(cursor.skip());
    EXPECT_EQ(Value::decode(before.without(cursor).rest()), value);
    EXPECT_EQ(cursor.string(), "behind");
    EXPECT_FALSE(cursor.skip());
    const std::span<const std::byte> whole = before.rest().first(before.left() - 7);
    for (std::size_t size = 0; size < std::min<std::size_t>(whole.size(), 300); ++size)
      EXPECT_FALSE(PackCursor(whole.first(size)).skip());
  }
}

TEST(MessagePack, wraps_what_was_written_as_an_extension_of_the_shortest_form) {
  for (const std::size_t size : {0U, 1U, 2U, 3U, 16U, 17U, 255U, 256U, 65535U, 65536U}) {
    internal::PackWriter writer;
    writer.write_nil();
    const std::size_t begin = writer.size();
    const Bytes payload = filled(size, 7);
    writer.append(payload);
    writer.wrap(begin, 5);
    Bytes expected = Value().encode();
    const Bytes extension = Value(Value::Extension{5, payload}).encode();
    expected.insert(expected.end(), extension.begin(), extension.end());
    EXPECT_EQ(writer.take(), expected);
  }
}

TEST(MessagePack, that_is_cut_short_is_nothing_to_a_cursor) {
  for (const Value& value : {Value("text"), Value(std::string(300, 'a')), Value(filled(70000, 1)),
                             Value(TensorIndex{7})}) {
    const Bytes packed = value.encode();
    for (std::size_t size = 0; size < packed.size(); size += 1 + size / 8) {
      const auto part = std::span(packed).first(size);
      EXPECT_FALSE(PackCursor(part).string());
      EXPECT_FALSE(PackCursor(part).bytes());
      EXPECT_FALSE(PackCursor(part).tensor());
    }
  }
}

// Every format of https://github.com/msgpack/msgpack/blob/master/spec.md, written out by hand.
TEST(MessagePack, reads_every_format_of_the_specification) {
  const std::pair<Bytes, Value> vectors[] = {
      {raw({0xc0}), nullptr},
      {raw({0xc2}), false},
      {raw({0xc3}), true},
      {raw({0x00}), 0},
      {raw({0x7f}), 127},
      {raw({0xff}), -1},
      {raw({0xe0}), -32},
      {raw({0xcc, 0xff}), 255},
      {raw({0xcd, 0x12, 0x34}), 0x1234},
      {raw({0xce, 0xff, 0xff, 0xff, 0xff}), std::int64_t{0xffffffff}},
      {raw({0xcf, 0xff, 0, 0, 0, 0, 0, 0, 1}), std::uint64_t{0xff00000000000001}},
      {raw({0xcf, 0, 0, 0, 0, 0, 0, 0, 1}), 1},
      {raw({0xd0, 0x80}), -128},
      {raw({0xd1, 0x80, 0x00}), -32768},
      {raw({0xd2, 0x80, 0, 0, 0}), std::int64_t{-2147483648}},
      {raw({0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe}), -2},
      {raw({0xca, 0x3f, 0xc0, 0, 0}), 1.5},
      {raw({0xcb, 0xbf, 0xf8, 0, 0, 0, 0, 0, 0}), -1.5},
      {raw({0xa0}), ""},
      {raw({0xa2, 'h', 'i'}), "hi"},
      {raw({0xd9, 2, 'h', 'i'}), "hi"},
      {raw({0xda, 0, 2, 'h', 'i'}), "hi"},
      {raw({0xdb, 0, 0, 0, 2, 'h', 'i'}), "hi"},
      {raw({0xc4, 1, 9}), raw({9})},
      {raw({0xc5, 0, 1, 9}), raw({9})},
      {raw({0xc6, 0, 0, 0, 1, 9}), raw({9})},
      {raw({0x92, 1, 2}), Value::List{1, 2}},
      {raw({0xdc, 0, 2, 1, 2}), Value::List{1, 2}},
      {raw({0xdd, 0, 0, 0, 2, 1, 2}), Value::List{1, 2}},
      {raw({0x81, 0xa1, 'k', 5}), Value::Map{{"k", 5}}},
      {raw({0xde, 0, 1, 0xa1, 'k', 5}), Value::Map{{"k", 5}}},
      {raw({0xdf, 0, 0, 0, 1, 0xa1, 'k', 5}), Value::Map{{"k", 5}}},
      {raw({0xd4, 9, 1}), Value::Extension{9, raw({1})}},
      {raw({0xd5, 9, 1, 2}), Value::Extension{9, raw({1, 2})}},
      {raw({0xd6, 0xff, 1, 2, 3, 4}), Value::Extension{-1, raw({1, 2, 3, 4})}},
      {raw({0xd7, 9}) + filled(8, 7), Value::Extension{9, filled(8, 7)}},
      {raw({0xd8, 9}) + filled(16, 7), Value::Extension{9, filled(16, 7)}},
      {raw({0xc7, 3, 9, 1, 2, 3}), Value::Extension{9, raw({1, 2, 3})}},
      {raw({0xc8, 0, 3, 9, 1, 2, 3}), Value::Extension{9, raw({1, 2, 3})}},
      {raw({0xc9, 0, 0, 0, 3, 9, 1, 2, 3}), Value::Extension{9, raw({1, 2, 3})}},
      {raw({0xd6, 1, 0x78, 0x56, 0x34, 0x12}), TensorIndex{0x12345678}},
      {raw({0xc7, 4, 1, 0x78, 0x56, 0x34, 0x12}), TensorIndex{0x12345678}},
      {raw({0xd4, 2, 0x90}), Value::Tuple{}},
      {raw({0xc7, 3, 2, 0x92, 1, 2}), Value::Tuple{{1, 2}}},
  };
  for (const auto& [bytes, value] : vectors) EXPECT_EQ(Value::decode(bytes), value);
}

TEST(MessagePack, writes_what_others_read) {
  EXPECT_EQ(Value().encode(), raw({0xc0}));
  EXPECT_EQ(Value(7).encode(), raw({7}));
  EXPECT_EQ(Value(-3).encode(), raw({0xfd}));
  EXPECT_EQ(Value("hi").encode(), raw({0xa2, 'h', 'i'}));
  EXPECT_EQ(Value(raw({9})).encode(), raw({0xc4, 1, 9}));
  EXPECT_EQ(Value(1.5).encode(), raw({0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Value(Value::Map{{"k", Value::List{true}}}).encode(),
            raw({0x81, 0xa1, 'k', 0x91, 0xc3}));
}

TEST(MessagePack, that_is_cut_short_is_refused_at_every_length) {
  for (const Value& value : samples()) {
    const Bytes bytes = value.encode();
    const std::size_t step = bytes.size() < 1000 ? 1 : 997;
    for (std::size_t length = 0; length < bytes.size(); length += step)
      ASSERT_EQ(
          outcome_of_reading({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}),
          "Protocol")
          << length << " of " << bytes.size();
    EXPECT_EQ(outcome_of_reading(bytes + raw({0xc0})), "Protocol") << "a byte too many";
  }
}

TEST(MessagePack, refuses_the_byte_that_starts_no_value) {
  EXPECT_EQ(outcome_of_reading(raw({0xc1})), "Protocol");
  EXPECT_EQ(outcome_of_reading(raw({0x91, 0xc1})), "Protocol");
}

TEST(MessagePack, refuses_tensors_and_tuples_that_are_none) {
  EXPECT_EQ(outcome_of_reading(raw({0xd4, 1, 0})), "Protocol");
  EXPECT_EQ(outcome_of_reading(raw({0xd7, 1, 0, 0, 0, 0, 0, 0, 0, 0})), "Protocol");
  EXPECT_EQ(outcome_of_reading(raw({0xc7, 0, 2})), "Protocol");
  EXPECT_EQ(outcome_of_reading(raw({0xd4, 2, 5})), "Protocol") << "not a list";
  EXPECT_EQ(outcome_of_reading(raw({0xd5, 2, 0x90, 0x90})), "Protocol") << "two lists";
  EXPECT_EQ(outcome_of_reading(raw({0xd4, 2, 0x91, 5})), "Protocol") << "the item lies outside";
}

TEST(MessagePack, refuses_counts_beyond_its_bytes) {
  for (const int head : {0xc6, 0xc9, 0xdb, 0xdd, 0xdf})
    for (const int most : {0xff, 0x7f})
      EXPECT_EQ(outcome_of_reading(raw({head, most, 0xff, 0xff, 0xff}) + filled(100, 0)),
                "Protocol");
}

TEST(MessagePack, reads_64_levels_and_refuses_more) {
  const auto read = [](int levels, const Bytes& head, const Bytes& tail = {}) {
    Bytes bytes;
    for (int i = 0; i < levels; ++i) bytes = bytes + head;
    bytes = bytes + raw({0xc0});
    for (int i = 0; i < levels; ++i) bytes = bytes + tail;
    return outcome_of_reading(bytes);
  };
  EXPECT_EQ(read(64, raw({0x91})), "nothing thrown");
  EXPECT_EQ(read(65, raw({0x91})), "Protocol");
  EXPECT_EQ(read(64, raw({0x81, 1})), "nothing thrown");
  EXPECT_EQ(read(65, raw({0x81, 1})), "Protocol");
  EXPECT_EQ(read(65, raw({0x81}), raw({1})), "Protocol");
  EXPECT_EQ(outcome_of_reading(filled(1'000'000, 0x91)), "Protocol");
}

TEST(MessagePack, refuses_to_write_what_nobody_would_read) {
  for (int levels = 1; levels <= 70; ++levels) {
    for (const Value& value : {nested(levels, kInList), nested(levels, kInMap),
                               nested(levels, kAsKey), nested(levels, kInTuple)}) {
      Bytes bytes;
      const std::string written = test::error_of([&] { bytes = value.encode(); });
      if (written == "nothing thrown")
        EXPECT_EQ(outcome_of_reading(bytes), "nothing thrown") << levels;
      else
        EXPECT_EQ(written, "InvalidArgument") << levels;
    }
  }
  const auto writes = [](const Value& value) {
    return test::error_of([&] { (void)value.encode(); });
  };
  EXPECT_EQ(writes(nested(64, kInList)), "nothing thrown");
  EXPECT_EQ(writes(nested(65, kInList)), "InvalidArgument");
  EXPECT_EQ(writes(nested(32, kInTuple)), "nothing thrown") << "a tuple is two levels";
  EXPECT_EQ(writes(nested(33, kInTuple)), "InvalidArgument");
}

// Lists in lists, each of which announces as many items as there are bytes.
TEST(MessagePack, that_announces_much_takes_no_more_memory_than_it_has_bytes_for) {
  if (TENSORBUS_SANITIZED) GTEST_SKIP() << "a sanitizer needs the address space itself";
  constexpr std::uint32_t kCount = 8 << 20;
  Bytes bytes;
  for (int i = 0; i < 60; ++i) bytes = bytes + raw({0xdd, 0, kCount >> 16, 0, 0});
  bytes = bytes + filled(kCount, 0xc1);
  test::Child child([&] {
    const rlimit limit{std::size_t{2} << 30, std::size_t{2} << 30};
    return ::setrlimit(RLIMIT_AS, &limit) == 0 && outcome_of_reading(bytes) == "Protocol";
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(MessagePack, survives_garbage_and_mutations) {
  std::mt19937 random(6);
  int accepted = 0;
  const auto feed = [&](const Bytes& bytes) {
    const std::string outcome = outcome_of_reading(bytes);
    if (outcome == "nothing thrown") ++accepted;
    ASSERT_TRUE(outcome == "nothing thrown" || outcome == "Protocol") << outcome;
  };
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random() % 40);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    feed(bytes);
  }
  const Bytes good = samples().back().encode();
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = good;
      bytes[at] = static_cast<std::byte>(value);
      feed(bytes);
    }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace tensorbus
