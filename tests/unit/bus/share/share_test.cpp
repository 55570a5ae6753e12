// Shares and handles: what is attached, for how long, and what is refused.

#include "tensorbus/bus/share.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

std::vector<std::uint64_t> pattern(std::uint64_t seed, std::size_t words = 64) {
  std::vector<std::uint64_t> all(words);
  write_pattern(all, seed);
  return all;
}

class Shares : public ::testing::Test {
 protected:
  bus::Shared share_pattern(std::uint64_t seed, const ShareOptions& options = {}) {
    const auto words = pattern(seed);
    return share({.tensors = {TensorView::of(words.data(), {64})}}, options, owner);
  }
  std::string refusal(const bus::Handle& handle, Code code, const AttachOptions& options = {}) {
    try {
      (void)attach(handle, options, borrower);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }
  bool gone(const bus::ParticipantRef& participant) {
    return eventually([&] { return participant->memory_use().used_bytes == 0; });
  }

  const FreshDomain domain;
  bus::ParticipantRef owner = domain.join();
  bus::ParticipantRef borrower = domain.join();
};

TEST_F(Shares, are_attached_by_reference_any_number_of_times_also_at_their_owner) {
  const bus::Shared shared = share_pattern(1);
  const bus::Sample first = attach(shared.handle(), {}, borrower);
  const bus::Sample again = attach(shared.handle(), {}, borrower);
  const bus::Sample at_home = attach(shared.handle(), {}, owner);
  for (const bus::Sample* each : {&first, &again, &at_home}) EXPECT_EQ(seed_of(*each), 1U);
  EXPECT_EQ(first.tensor().data(), again.tensor().data());
  EXPECT_FALSE(first.tensor().writable());
  EXPECT_EQ(first.header().publisher, owner->id());
}

TEST_F(Shares, are_told_apart_by_whether_others_may_write_to_them) {
  const Layout layout = Layout::contiguous(DType::kUInt8, {100});
  const bus::Loan open = empty(layout, true, owner);
  const bus::Loan closed = empty(layout, false, owner);
  const std::array<std::byte, 100> elsewhere{};
  EXPECT_TRUE(is_shared(open.data(), 100, owner));
  EXPECT_FALSE(is_shared(open.data(), 100000, owner));
  EXPECT_FALSE(is_shared(closed.data(), 100, owner));
  EXPECT_FALSE(is_shared(elsewhere.data(), 100, owner));
  const bus::Shared shared = share({.tensors = {{open.data(), layout}}}, {.shared = true}, owner);
  const bus::Sample sample = attach(shared.handle(), {.access = Access::kShared}, borrower);
  EXPECT_TRUE(is_shared(sample.tensor().data(), 100, borrower));
  EXPECT_FALSE(is_shared(sample.tensor().data(), 100, owner));
}

TEST(Empty, keeps_the_participant_that_shares_it) {
  const FreshDomain domain;
  const auto shared_one = [&] { return bus::shared_participant({.domain = domain.path()}); };
  const bus::Loan memory = empty(Layout::contiguous(DType::kUInt8, {100}), true, shared_one());
  EXPECT_TRUE(is_shared(memory.data(), 100, shared_one()));
  const bus::Shared shared = share({.tensors = {memory.view()}}, {.shared = true}, shared_one());
  memory.data()[0] = std::byte{7};  // which a copy would not have
  EXPECT_EQ(attach(shared.handle(), {}, shared_one()).tensor().as<std::uint8_t>()[0], 7);
}

TEST_F(Shares, keep_tensors_and_fields_as_they_were) {
  const auto words = pattern(2);
  const std::array<float, 6> floats{1, 2, 3, 4, 5, 6};
  Layout strided = Layout::contiguous(DType::kFloat32, {3, 2}, TensorFlags::kRequiresGrad);
  strided.strides = {1, 3};
  const std::vector<std::byte> fields =
      Value(Value::Map{{"id", 7}, {"x", TensorIndex{1}}}).encode();
  Message message{.tensors = {TensorView::of(words.data(), {64}), {floats.data(), strided}}};
  message.fields = fields;
  message.fingerprint = 99;
  const bus::Shared shared = share(message, {}, owner);
  const bus::Sample sample = attach(bus::Handle::parse(shared.handle().text()), {}, borrower);
  ASSERT_EQ(sample.tensors().size(), 2U);
  EXPECT_EQ(sample.tensor("x").layout(), strided);
  EXPECT_EQ(std::memcmp(sample.tensor("x").data(), floats.data(), sizeof floats), 0);
  EXPECT_EQ(sample.fields().at("id").as<std::int64_t>(), 7);
}

TEST_F(Shares, that_are_closed_stay_with_those_who_have_them_and_refuse_others) {
  bus::Shared shared = share_pattern(3);
  std::optional<bus::Sample> held = attach(shared.handle(), {}, borrower);
  EXPECT_TRUE(shared.open());
  shared.close();
  EXPECT_FALSE(shared.open());
  EXPECT_EQ(seed_of(*held), 3U);
  EXPECT_NE(refusal(shared.handle(), Code::kClosed).find("no longer shared"), std::string::npos);
  EXPECT_GT(owner->memory_use().used_bytes, 0U);
  held.reset();
  EXPECT_TRUE(gone(owner));
}

TEST_F(Shares, with_uses_end_when_these_are_spent) {
  const bus::Shared shared = share_pattern(4, {.uses = 2});
  std::optional<bus::Sample> first = attach(shared.handle(), {}, borrower);
  std::optional<bus::Sample> second = attach(shared.handle(), {}, borrower);
  EXPECT_FALSE(shared.open());
  (void)refusal(shared.handle(), Code::kClosed);
  EXPECT_EQ(seed_of(*second), 4U);
  first.reset();
  second.reset();
  EXPECT_TRUE(gone(owner));
}

TEST_F(Shares, with_a_ttl_end_when_it_has_passed) {
  const bus::Shared shared = share_pattern(5, {.ttl = 1ms});
  const bus::Shared other = share_pattern(6, {.ttl = 1h});
  EXPECT_TRUE(eventually([&] { return !shared.open(); }));
  (void)refusal(shared.handle(), Code::kClosed);
  EXPECT_EQ(seed_of(attach(other.handle(), {}, borrower)), 6U);
}

TEST_F(Shares, give_their_memory_back_when_their_ttl_has_passed_though_nobody_asks) {
  const bus::Shared shared = share_pattern(5, {.ttl = 20ms});
  EXPECT_TRUE(gone(owner));
}

TEST_F(Shares, are_written_for_all_by_those_who_ask_if_they_are_shared_so) {
  const bus::Shared closed = share_pattern(7);
  EXPECT_NE(
      refusal(closed.handle(), Code::kPermission, {.access = Access::kShared}).find("shared=True"),
      std::string::npos);
  const bus::Shared open = share_pattern(7, {.shared = true});
  const bus::Sample reading = attach(open.handle(), {}, borrower);
  const bus::Sample writing = attach(open.handle(), {.access = Access::kShared}, borrower);
  const bus::Sample own = attach(open.handle(), {.access = Access::kPrivate}, borrower);
  write_pattern(own.tensor().as_mutable<std::uint64_t>(), 8);
  EXPECT_EQ(seed_of(reading), 7U);
  write_pattern(writing.tensor().as_mutable<std::uint64_t>(), 9);
  EXPECT_EQ(seed_of(reading), 9U);
  EXPECT_EQ(seed_of(own), 8U);
}

TEST_F(Shares, are_known_by_handles_that_any_carrier_keeps) {
  const bus::Shared shared = share_pattern(10);
  const bus::Handle& handle = shared.handle();
  const bus::Handle by_bytes = bus::Handle::from_bytes(handle.bytes());
  const bus::Handle by_text = bus::Handle::parse(handle.text());
  for (const bus::Handle* each : {&by_bytes, &by_text}) {
    EXPECT_EQ(*each, handle);
    ASSERT_EQ(each->described.size(), 1U);
    EXPECT_EQ(each->described[0].layout, Layout::contiguous(DType::kUInt64, {64}));
    EXPECT_EQ(each->described[0].offset, handle.described[0].offset);
  }
  EXPECT_EQ(handle.text().find_first_of(" \n/+="), std::string::npos);
}

TEST_F(Shares, refuse_handles_that_were_cut_changed_or_made_up) {
  const bus::Shared shared = share_pattern(11);
  const std::string text = shared.handle().text();
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_EQ(code_of([&] { (void)bus::Handle::parse(text.substr(0, length)); }),
              Code::kInvalidArgument);
  for (const char* more : {"A", "AA", "AAA", "-", "="})
    EXPECT_EQ(code_of([&] { (void)bus::Handle::parse(text + more); }), Code::kInvalidArgument);
  const auto bytes = shared.handle().bytes();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{4};
    EXPECT_EQ(code_of([&] { (void)bus::Handle::from_bytes(changed); }), Code::kInvalidArgument);
  }
  bus::Handle forged = shared.handle();
  ++forged.key;
  EXPECT_NE(refusal(forged, Code::kInvalidArgument).find("key"), std::string::npos);
  forged = shared.handle();
  forged.number = 1000;
  EXPECT_NE(refusal(forged, Code::kInvalidArgument).find("no share of this number"),
            std::string::npos);
  forged = shared.handle();
  forged.described[0].layout = Layout::contiguous(DType::kUInt64, {128});
  EXPECT_NE(refusal(forged, Code::kInvalidArgument).find("shape"), std::string::npos);
  forged = shared.handle();
  forged.owner = Id::random();
  EXPECT_NE(refusal(forged, Code::kClosed).find("another domain"), std::string::npos);
  EXPECT_EQ(seed_of(attach(shared.handle(), {}, borrower)), 11U);
}

TEST_F(Shares, of_a_participant_that_is_gone_are_refused) {
  std::optional<bus::Shared> shared = share_pattern(12);
  const bus::Handle handle = shared->handle();
  const bus::Sample held = attach(handle, {}, borrower);
  shared.reset();
  owner = domain.join();  // the one that shared goes
  (void)refusal(handle, Code::kClosed);
  EXPECT_EQ(seed_of(held), 12U);
}

TEST_F(Shares, take_a_loan_as_it_is) {
  bus::Publisher publisher("topic", {}, owner);
  const bus::Loan loan = pattern_loan(publisher, 13);
  const bus::Shared shared = share({.tensors = {loan.view()}}, {}, owner);
  const bus::Shared again = share({.tensors = {loan.view()}}, {}, owner);
  EXPECT_EQ(owner->memory_use().blocks, 1U);
  EXPECT_EQ(attach(shared.handle(), {}, borrower).tensor().data(),
            attach(again.handle(), {}, borrower).tensor().data());
}

// What was attached goes on to others, under the name its owner knows it by.
class HandedOn : public Shares {
 protected:
  bus::Shared share_on(const bus::Sample& sample, const bus::ParticipantRef& by,
                       const ShareOptions& options = {}) {
    const bus::Tensor& tensor = sample.tensor();
    return share({.tensors = {{tensor.data(), tensor.layout()}}}, options, by);
  }

  bus::ParticipantRef third = domain.join();
};

TEST_F(HandedOn, a_tensor_is_not_copied_and_outlives_who_handed_it_on) {
  std::optional<bus::Shared> first = share_pattern(20);
  std::optional<bus::Sample> at_borrower = attach(first->handle(), {}, borrower);
  std::optional<bus::Shared> second = share_on(*at_borrower, borrower);
  EXPECT_EQ(borrower->memory_use().used_bytes, 0U);
  first.reset();
  at_borrower.reset();
  std::optional<bus::Sample> at_third = attach(second->handle(), {}, third);
  std::optional<bus::Sample> back_home = attach(second->handle(), {}, owner);
  second.reset();
  borrower = domain.join();  // who handed it on is gone
  EXPECT_EQ(seed_of(*at_third), 20U);
  EXPECT_EQ(seed_of(*back_home), 20U);
  EXPECT_GT(owner->memory_use().used_bytes, 0U);
  at_third.reset();
  back_home.reset();
  EXPECT_TRUE(gone(owner));
}

TEST_F(HandedOn, what_a_participant_that_is_gone_has_left_comes_from_whoever_has_it) {
  std::optional<bus::Shared> first = share_pattern(21);
  const bus::Sample at_borrower = attach(first->handle(), {}, borrower);
  const bus::Shared second = share_on(at_borrower, borrower);
  first.reset();
  owner = domain.join();
  std::optional<bus::Sample> at_third = attach(second.handle(), {}, third);
  EXPECT_EQ(seed_of(*at_third), 21U);
  const bus::Shared from_third = share_on(*at_third, third);
  EXPECT_EQ(third->memory_use().used_bytes, 0U);
  at_third.reset();
  bus::ParticipantRef fourth = domain.join();
  EXPECT_EQ(seed_of(attach(from_third.handle(), {}, fourth)), 21U);
  EXPECT_EQ(seed_of(attach(from_third.handle(), {.access = Access::kPrivate}, fourth)), 21U);
}

TEST_F(HandedOn, several_owners_and_own_memory_travel_in_one_sample) {
  const bus::Shared of_owner = share_pattern(22);
  const auto words = pattern(23);
  const bus::Shared of_third = share({.tensors = {TensorView::of(words.data(), {64})}}, {}, third);
  const bus::Sample from_owner = attach(of_owner.handle(), {}, borrower);
  const bus::Sample from_third = attach(of_third.handle(), {}, borrower);
  const auto own = pattern(24);
  const bus::Shared all =
      share({.tensors = {{from_owner.tensor().data(), from_owner.tensor().layout()},
                         TensorView::of(own.data(), {64}),
                         {from_third.tensor().data(), from_third.tensor().layout()}}},
            {}, borrower);
  for (const bus::ParticipantRef* each : {&owner, &borrower, &third}) {
    const bus::Sample sample = attach(all.handle(), {}, *each);
    Seeds seeds;
    for (const bus::Tensor& tensor : sample.tensors())
      seeds.push_back(seed_of(tensor.as<std::uint64_t>()));
    EXPECT_EQ(seeds, (Seeds{22, 24, 23}));
  }
}

TEST_F(HandedOn, more_blocks_than_one_message_can_name) {
  std::vector<bus::Shared> shares;
  std::vector<bus::Sample> samples;
  Message message;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    shares.push_back(share_pattern(seed));
    samples.push_back(attach(shares.back().handle(), {}, borrower));
    const bus::Tensor& tensor = samples.back().tensor();
    message.tensors.push_back({tensor.data(), tensor.layout()});
  }
  const bus::Shared all = share(message, {}, borrower);
  shares.clear();
  samples.clear();
  const bus::Sample sample = attach(all.handle(), {}, third);
  ASSERT_EQ(sample.tensors().size(), 500U);
  for (std::uint64_t seed = 0; seed < 500; ++seed)
    EXPECT_EQ(seed_of(sample.tensors()[seed].as<std::uint64_t>()), seed);
  EXPECT_LT(borrower->memory_use().used_bytes, 500 * 64U) << "the descriptor alone";
}

TEST_F(HandedOn, memory_to_be_written_stays_so_and_no_other_becomes_so) {
  const bus::Shared open = share_pattern(25, {.shared = true});
  const bus::Sample writing = attach(open.handle(), {.access = Access::kShared}, borrower);
  const bus::Shared onward = share_on(writing, borrower, {.shared = true});
  const bus::Sample far = attach(onward.handle(), {.access = Access::kShared}, third);
  write_pattern(far.tensor().as_mutable<std::uint64_t>(), 26);
  EXPECT_EQ(seed_of(writing), 26U);
  const bus::Shared closed = share_pattern(27);
  const bus::Sample reading = attach(closed.handle(), {}, borrower);
  const bus::Shared copied = share_on(reading, borrower, {.shared = true});
  EXPECT_GT(borrower->memory_use().used_bytes, 0U);
  const bus::Sample copy = attach(copied.handle(), {.access = Access::kShared}, third);
  write_pattern(copy.tensor().as_mutable<std::uint64_t>(), 28);
  EXPECT_EQ(seed_of(reading), 27U);
}

}  // namespace
}  // namespace tensorbus
