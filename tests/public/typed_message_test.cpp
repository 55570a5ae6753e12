// Structs as messages.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "support.hpp"

struct Spot {
  float x = 0;
};
TENSORBUS_MESSAGE(Spot, "robot.Spot", x)

struct Everything {
  bool flag = false;
  std::int8_t small = 0;
  std::uint64_t large = 0;
  double number = 0;
  std::string text;
  tensorbus::Value::Bytes bytes;
  tensorbus::ArrayField array;
  tensorbus::TorchField tensor;
  std::optional<Spot> spot;
  std::vector<Spot> spots;
  std::map<std::string, tensorbus::ArrayField> arrays;
  tensorbus::Value any;
};
TENSORBUS_MESSAGE(Everything, "robot.Everything", flag, small, large, number, text, bytes, array,
                  tensor, spot, spots, arrays, any)

struct Nothing {};
TENSORBUS_MESSAGE(Nothing, "robot.Nothing")

struct WiderSpot {
  double x = 0;
  std::optional<std::string> added;
};
TENSORBUS_MESSAGE(WiderSpot, "robot.Spot", x, added)

struct OtherSpot {
  std::string x;
};
TENSORBUS_MESSAGE(OtherSpot, "robot.Spot", x)

namespace robot {
enum class Mode : std::uint8_t { idle, driving = 4 };
enum Drive { kReverse = -1, kForward = 1 };
enum class Mask : std::uint64_t { all = ~std::uint64_t{0} };
}  // namespace robot
TENSORBUS_ENUM(robot::Mode, idle, driving)
TENSORBUS_ENUM(robot::Drive, kReverse, kForward)
TENSORBUS_ENUM(robot::Mask, all)

struct State {
  robot::Mode mode{};
  std::optional<robot::Drive> drive{};
  robot::Mask mask = robot::Mask::all;
  std::array<double, 3> position{};
  std::array<std::array<bool, 2>, 2> grid{};
  std::vector<std::array<Spot, 1>> corners{};
  std::map<robot::Mode, std::vector<robot::Mode>> next{};
  std::array<int, 0> none{};
};
TENSORBUS_MESSAGE(State, "robot.State", mode, drive, mask, position, grid, corners, next, none)

// A field of one type of PlainState, where State has another.
struct PlainState {
  std::int64_t mode = 0;
};
TENSORBUS_MESSAGE(PlainState, "robot.State", mode)

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

TEST(MessageTypeOfAStruct, is_its_name_and_its_fields_in_order) {
  EXPECT_EQ(message_type<Spot>().definition(), "robot.Spot\nx: float");
  EXPECT_EQ(message_type<Nothing>().definition(), "robot.Nothing");
  EXPECT_EQ(message_type<WiderSpot>().definition(), "robot.Spot\nadded: none|str = ...\nx: float");
  std::string digits = "0123456789abcdef";
  std::string spot = "robot.Spot#";
  for (int shift = 60; shift >= 0; shift -= 4)
    spot += digits[(MessageType("robot.Spot\nx: float").fingerprint() >> shift) & 15U];
  EXPECT_EQ(message_type<Everything>().definition(),
            "robot.Everything\nany: any\narray: array\narrays: dict<str,array>\nbytes: bytes\n"
            "flag: bool\nlarge: int\nnumber: float\nsmall: int\nspot: none|" +
                spot + " = ...\nspots: list<" + spot + ">\ntensor: tensor\ntext: str");
}

TEST(MessageTypeOfAStruct, has_the_members_of_enums_and_the_places_of_arrays) {
  const std::string mode = "enum<Mode: idle=0,driving=4>";
  const std::string spot = internal::reference_to(message_type<Spot>());
  EXPECT_EQ(message_type<State>().definition(),
            "robot.State\ncorners: list<tuple<" + spot +
                ">>\ndrive: enum<Drive: kReverse=-1,kForward=1>|none = ...\n"
                "grid: tuple<tuple<bool,bool>,tuple<bool,bool>>\n"
                "mask: enum<Mask: all=18446744073709551615>\nmode: " +
                mode + "\nnext: dict<" + mode + ",list<" + mode +
                ">>\nnone: tuple<>\nposition: tuple<float,float,float>");
}

class Typed : public ::testing::Test {
 protected:
  template <typename Published, typename Expected>
  void connect() {
    publisher.emplace("topic", PublisherOptions{.type = message_type<Published>()}, owner);
    subscriber.emplace("topic", SubscriberOptions{.type = message_type<Expected>()}, borrower);
    ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
  }
  template <typename Struct>
  Struct next() {
    auto sample = subscriber->receive(kLong);
    EXPECT_TRUE(sample);
    return read_message<Struct>(*sample);
  }

  const FreshDomain domain;
  const Participant owner = domain.join();
  const Participant borrower = domain.join();
  std::optional<Publisher> publisher;
  std::optional<Subscriber> subscriber;
};

TEST_F(Typed, struct_arrives_as_it_was) {
  connect<Everything, Everything>();
  Loan loan = publisher->loan<float>({2, 3});
  std::ranges::fill(loan.as<float>(), 7.0F);
  const std::array<std::int64_t, 2> numbers = {1, 2};
  const Value any = Value::Map{{"a", Value::List{1, "b"}}};
  publish(*publisher, Everything{.flag = true,
                                 .small = -128,
                                 .large = ~std::uint64_t{0},
                                 .number = 0.1,
                                 .text = "text",
                                 .bytes = {std::byte{1}},
                                 .array = loan.view(),
                                 .tensor = TensorView::of(numbers.data(), {2}),
                                 .spot = Spot{1},
                                 .spots = {Spot{2}, Spot{3}},
                                 .arrays = {{"n", TensorView::of(numbers.data(), {1, 2})}},
                                 .any = any});
  EXPECT_EQ(publisher->stats().bytes_copied, 16U);  // the two views of the numbers; not the loan
  const auto got = next<Everything>();
  EXPECT_TRUE(got.flag);
  EXPECT_EQ(got.small, -128);
  EXPECT_EQ(got.large, ~std::uint64_t{0});
  EXPECT_EQ(got.number, 0.1);
  EXPECT_EQ(got.text, "text");
  EXPECT_EQ(got.bytes, Value::Bytes{std::byte{1}});
  EXPECT_EQ(got.array.tensor().shape(), (Dims{2, 3}));
  EXPECT_EQ(got.array.tensor().as<float>()[5], 7.0F);
  EXPECT_TRUE(has(got.tensor.tensor().layout().flags, TensorFlags::kFromTorch));
  EXPECT_EQ(got.tensor.tensor().as<std::int64_t>()[1], 2);
  ASSERT_TRUE(got.spot);
  EXPECT_EQ(got.spot->x, 1);
  ASSERT_EQ(got.spots.size(), 2U);
  EXPECT_EQ(got.spots[1].x, 3);
  EXPECT_TRUE(has(got.arrays.at("n").tensor().layout().flags, TensorFlags::kFromNumpy));
  EXPECT_EQ(got.any, any);
}

TEST_F(Typed, enums_and_arrays_arrive_as_they_were) {
  connect<State, State>();
  const State sent{.mode = robot::Mode::driving,
                   .drive = robot::kReverse,
                   .position = {1, 2.5, -3},
                   .grid = {{{true, false}, {false, true}}},
                   .corners = {{Spot{1}}, {Spot{2}}},
                   .next = {{robot::Mode::idle, {robot::Mode::idle, robot::Mode::driving}}}};
  publish(*publisher, sent);
  const auto got = next<State>();
  EXPECT_EQ(got.mode, sent.mode);
  EXPECT_EQ(got.drive, sent.drive);
  EXPECT_EQ(got.mask, sent.mask);
  EXPECT_EQ(got.position, sent.position);
  EXPECT_EQ(got.grid, sent.grid);
  ASSERT_EQ(got.corners.size(), 2U);
  EXPECT_EQ(got.corners[1][0].x, 2);
  EXPECT_EQ(got.next, sent.next);
}

TEST_F(Typed, enum_has_no_other_values_than_were_declared) {
  connect<State, State>();
  const auto refusal = [](auto act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTypeMismatch);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] { publish(*publisher, State{.mode = robot::Mode{3}}); }),
            "expected enum<Mode: idle=0,driving=4>, got 3");
  EXPECT_EQ(publisher->stats().sent, 0U);
  publisher->publish(Value::Map{{"mode", 3}}, {});
  EXPECT_EQ(refusal([&] { next<State>(); }),
            "robot.State.mode: expected enum<Mode: idle=0,driving=4>, this is an int64");
  publisher->publish(Value::Map{{"mode", "idle"}}, {});
  EXPECT_EQ(refusal([&] { next<State>(); }),
            "robot.State.mode: expected enum<Mode: idle=0,driving=4>, this is a string");
  publisher->publish(
      Value::Map{{"mode", 0}, {"mask", ~std::uint64_t{0}}, {"position", Value::Tuple{{1, 2}}}}, {});
  EXPECT_EQ(refusal([&] { next<State>(); }),
            "robot.State.position: expected tuple of 3, this is a tuple");
}

TEST(MessageTypeOfAStruct, of_an_enum_is_not_that_of_an_int) {
  EXPECT_EQ(message_type<PlainState>().why_not(message_type<State>()),
            "robot.State.mode: expected int, published is enum<Mode: idle=0,driving=4>");
}

TEST_F(Typed, struct_that_was_received_goes_on_by_reference) {
  connect<ImageMessage, ImageMessage>();
  Loan loan = publisher->loan<std::uint8_t>({4, 4, 3});
  publish(*publisher, ImageMessage{.data = loan.view()});
  const auto first = next<ImageMessage>();
  EXPECT_EQ(first.encoding, "rgb8");
  Publisher onward("onward", {.type = message_type<ImageMessage>()}, borrower);
  Subscriber last("onward", {}, owner);
  ASSERT_EQ(onward.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish(onward, first);
  EXPECT_TRUE(last.receive(kLong));
  EXPECT_EQ(onward.stats().bytes_copied, 0U);
}

TEST_F(Typed, newer_struct_reads_an_older_one) {
  connect<Spot, WiderSpot>();
  publish(*publisher, Spot{0.5F});
  const auto got = next<WiderSpot>();
  EXPECT_EQ(got.x, 0.5);
  EXPECT_FALSE(got.added);
}

TEST_F(Typed, publisher_takes_no_other_struct) {
  connect<Spot, Spot>();
  EXPECT_EQ(code_of([&] { publish(*publisher, OtherSpot{"far"}); }), Code::kTypeMismatch);
  EXPECT_EQ(publisher->stats().sent, 0U);
}

TEST_F(Typed, reader_says_which_field_does_not_fit) {
  publisher.emplace("topic", PublisherOptions{}, owner);
  subscriber.emplace("topic", SubscriberOptions{.type = message_type<Everything>()}, borrower);
  ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
  const auto refusal = [&](Value fields) -> std::string {
    publisher->publish(fields, {});
    try {
      next<Everything>();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kTypeMismatch);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(Value::Map{}), "robot.Everything.flag: expected a value, there is none");
  EXPECT_EQ(refusal(Value::Map{{"flag", 1}}),
            "robot.Everything.flag: expected bool, this is an int64");
  EXPECT_EQ(refusal(Value::Map{{"flag", true}, {"small", 128}}),
            "robot.Everything.small: expected int of 8 bits, this is an int64");
  EXPECT_EQ(refusal(Value::List{}), "expected robot.Everything, this is a list");
  publisher->publish(Value::Map{{"data", TensorIndex{1}}}, {});
  EXPECT_EQ(code_of([&] { next<ArrayMessage>(); }), Code::kProtocol);
}

TEST(AField, that_was_not_received_has_no_tensor) {
  EXPECT_EQ(code_of([] { (void)ArrayField().tensor(); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbus
