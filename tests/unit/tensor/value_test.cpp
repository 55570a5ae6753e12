#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tensorbus/values/value.hpp>
#include <type_traits>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

const Value kFields = Value::Map{
    {"image", TensorIndex{0}}, {"id", 7}, {3, "a number is no name"}, {"id", "the second"}};

std::string message_of(const auto& action) {
  std::string message;
  const std::string code = test::error_of(action, &message);
  return code + ": " + message;
}

TEST(Value, knows_its_type) {
  EXPECT_TRUE(Value().is<std::nullptr_t>());
  EXPECT_TRUE(Value(nullptr).is<std::nullptr_t>());
  EXPECT_TRUE(Value(true).is<bool>());
  EXPECT_TRUE(Value(1).is<std::int64_t>());
  EXPECT_TRUE(Value(1.0).is<double>());
  EXPECT_TRUE(Value("text").is<std::string>());
  EXPECT_TRUE(Value(Value::Bytes{}).is<Value::Bytes>());
  EXPECT_TRUE(Value(Value::List{}).is<Value::List>());
  EXPECT_TRUE(Value(Value::Map{}).is<Value::Map>());
  EXPECT_TRUE(Value(Value::Tuple{}).is<Value::Tuple>());
  EXPECT_TRUE(Value(TensorIndex{}).is<TensorIndex>());
  EXPECT_TRUE(Value(Value::Extension{}).is<Value::Extension>());
  EXPECT_FALSE(Value(1).is<bool>());
}

TEST(Value, keeps_a_number_as_int64_where_it_fits) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Value(std::uint64_t{5}), Value(5));
  EXPECT_TRUE(Value(kMax).is<std::int64_t>());
  EXPECT_TRUE(Value(kMax + 1).is<std::uint64_t>());
  EXPECT_NE(Value(kMax + 1), Value(std::numeric_limits<std::int64_t>::min()));
}

TEST(Value, finds_the_first_of_a_name) {
  EXPECT_EQ(kFields.at("id").as<std::int64_t>(), 7);
  EXPECT_EQ(kFields.at("image").as<TensorIndex>().index, 0U);
  EXPECT_EQ(kFields.find("id"), &kFields.at("id"));
  EXPECT_EQ(kFields.find("other"), nullptr);
  const Value number(7);
  EXPECT_EQ(number.find("id"), nullptr);
}

Value made() { return kFields; }

// A reference into it would dangle after the full expression.
TEST(Value, that_is_a_temporary_gives_values) {
  static_assert(std::is_same_v<decltype(made().at("id")), Value>);
  static_assert(std::is_same_v<decltype(made().as<Value::Map>()), Value::Map>);
  static_assert(std::is_same_v<decltype(made().variant()), Value::Variant>);
  static_assert(std::is_same_v<decltype(kFields.at("id")), const Value&>);
  const auto& id = made().at("id");
  EXPECT_EQ(id.as<std::int64_t>(), 7);
  for (const auto& [name, value] : made().as<Value::Map>()) EXPECT_FALSE(name == value);
}

TEST(Value, has_the_fields_of_a_message) {
  EXPECT_EQ(kFields.fields(), kFields);
  const Value inner = Value::Map{{"stamp", 3}};
  const Value record = Value::List{"message", "acme.Header", inner};
  const Value header = Value::Extension{3, record.encode()};
  EXPECT_EQ(header.fields(), inner);
  EXPECT_EQ(message_of([&] { (void)header.at("stamp"); }),
            "InvalidArgument: no field \"stamp\": this is a message of type acme.Header, whose "
            "fields are in fields()");
  EXPECT_EQ(message_of([] { (void)Value(7).fields(); }),
            "InvalidArgument: expected a message, this is an int64");
  for (const Value& other : {Value(Value::Extension{3, Value(7).encode()}),
                             Value(Value::Extension{3, Value(Value::List{"set"}).encode()}),
                             Value(Value::Extension{4, record.encode()})})
    EXPECT_EQ(message_of([&] { (void)other.fields(); }),
              "InvalidArgument: expected a message, this is an extension");
}

// A sender may send any bytes: the error stays the one of the caller's mistake.
TEST(Value, that_is_a_malformed_record_is_an_extension_in_errors) {
  const Value cut = Value::Extension{3, {std::byte{0x93}}};
  EXPECT_EQ(message_of([&] { (void)cut.at("stamp"); }),
            "InvalidArgument: no field \"stamp\": this is an extension, not a map");
  EXPECT_EQ(internal::what_is(cut), "an extension");
  EXPECT_EQ(message_of([&] { (void)cut.fields(); }).substr(0, 9), "Protocol:");
  const Value of_list = Value::List{"message", "acme.Header", Value::List{}};
  EXPECT_EQ(internal::what_is(Value::Extension{3, of_list.encode()}), "an extension");
}

TEST(Value, puts_no_more_of_a_senders_texts_into_an_error_than_fits) {
  const std::string name = std::string(50, 'n') + "\n" + std::string(10'000, 'x');
  const Value record = Value::List{"message", name, Value::Map{}};
  const std::string shown = internal::what_is(Value::Extension{3, record.encode()});
  EXPECT_EQ(shown,
            "a message of type " + std::string(50, 'n') + "?" + std::string(49, 'x') + "...");
  EXPECT_EQ(internal::shortened(std::string(99, 'x') + "é"), std::string(99, 'x') + "...");
  EXPECT_EQ(internal::shortened(std::string(98, 'x') + "é"), std::string(98, 'x') + "é");
  Value::Map many;
  for (int i = 0; i < 10'000; ++i) many.emplace_back("field " + std::to_string(i), i);
  const std::string missing = message_of([&] { (void)Value(many).at("other"); });
  EXPECT_TRUE(missing.ends_with(", ...")) << missing;
  EXPECT_LT(missing.size(), 1200U);
}

TEST(Value, tells_whether_it_contains_a_name) {
  EXPECT_TRUE(kFields.contains("id"));
  EXPECT_TRUE(made().contains("id"));
  EXPECT_FALSE(kFields.contains("other"));
  EXPECT_FALSE(Value(7).contains("id"));
}

TEST(Value, that_is_a_temporary_gives_its_parts_without_copies) {
  Value tree = Value::Map{{"bytes", Value::Bytes(100)}};
  const std::byte* const first = tree.at("bytes").as<Value::Bytes>().data();
  EXPECT_EQ(std::move(tree).fields().at("bytes").as<Value::Bytes>().data(), first);
}

TEST(Value, says_what_was_expected_and_what_came) {
  EXPECT_EQ(message_of([] { (void)kFields.at("id").as<std::string>(); }),
            "InvalidArgument: expected a string, this is an int64");
  EXPECT_EQ(message_of([] { (void)kFields.at("image").as<Value::Tuple>(); }),
            "InvalidArgument: expected a tuple, this is a tensor");
}

TEST(Value, says_why_it_has_no_such_field) {
  EXPECT_EQ(message_of([] { (void)Value(Value::Map{{"id", 7}, {1, 2}, {"x", 3}}).at("other"); }),
            "InvalidArgument: no field \"other\"; there are \"id\", \"x\"");
  EXPECT_EQ(message_of([] { (void)Value(Value::Map{}).at("id"); }),
            "InvalidArgument: no field \"id\": there are no fields");
  EXPECT_EQ(message_of([] { (void)Value(7).at("id"); }),
            "InvalidArgument: no field \"id\": this is an int64, not a map");
  EXPECT_EQ(message_of([] { (void)Value(TensorIndex{0}).at("image"); }),
            "InvalidArgument: no field \"image\": this is a single tensor: get it without a key");
}

TEST(Value, equals_what_has_the_same_type_and_content) {
  EXPECT_EQ(kFields, Value(kFields));
  EXPECT_NE(Value(1), Value(true));
  EXPECT_NE(Value(1), Value(1.0));
  EXPECT_NE(Value(Value::List{1}), Value(Value::Tuple{{1}}));
  EXPECT_NE(Value("a"), Value(Value::Bytes{std::byte{'a'}}));
  EXPECT_NE(Value(std::nan("")), Value(std::nan("")));
}

}  // namespace
}  // namespace tensorbus
