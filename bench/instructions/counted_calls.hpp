#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/outcome.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "instructions/bus_calls.hpp"
#include "instructions/counting.hpp"

namespace bench {

// A publisher, and subscribers of it in the same process, of one of the two interfaces.
template <typename Participant, typename Publisher, typename Subscriber, typename Loan,
          typename Sample>
class CountedTopic {
 public:
  CountedTopic(const Participant& participant, const std::string& name, std::uint32_t subscribers)
      : publisher_(name, {.depth = kBatch, .reliable = true}, participant) {
    for (std::uint32_t i = 0; i < subscribers; ++i)
      subscribers_.emplace_back(name, tensorbus::SubscriberOptions{}, participant);
    if (publisher_.wait_for_subscribers(subscribers, kLong) != tensorbus::Outcome::kDone)
      throw std::runtime_error("no subscriber came");
    for (Subscriber& subscriber : subscribers_) subscriber.wait_for_publishers(1, kLong);
    message_.fields = fields_;
    copied_message_.tensors = {{copied_.data(), layout_}};
    loans_.reserve(kBatch);
  }

  void loan() {
    for (int i = 0; i < kBatch; ++i) loans_.push_back(publisher_.loan(layout_));
  }
  void pass_on_one_by_one() {
    for (int i = 0; i < kBatch; ++i) {
      publisher_.publish(publisher_.loan(layout_));
      receive_one(subscribers_.front());
    }
  }
  void publish_loans() {
    for (Loan& loan : loans_) publisher_.publish(std::move(loan));
  }
  void let_go_of_loans() { loans_.clear(); }
  void publish_copies() {
    for (int i = 0; i < kBatch; ++i) publisher_.publish(copied_message_);
  }
  void publish_fields() {
    for (int i = 0; i < kBatch; ++i) publisher_.publish(message_);
  }
  void receive() {
    for (Subscriber& subscriber : subscribers_)
      for (int i = 0; i < kBatch; ++i) receive_one(subscriber);
  }
  void receive_many() {
    std::size_t count = 0;
    if (subscribers_.front().receive_many(samples_, count, kLong) != tensorbus::Outcome::kDone ||
        count != kBatch)
      throw std::runtime_error("a sample was lost");
  }

  void publish_many() {
    if (publisher_.publish_many({rows_.data(), rows_layout_}).count != kBatch)
      throw std::runtime_error("a row was not published");
  }
  void receive_into() {
    std::size_t count = 0;
    if (subscribers_.front().receive_into(rows_.data(), rows_layout_, count, kLong) !=
            tensorbus::Outcome::kDone ||
        count != kBatch)
      throw std::runtime_error("a row was lost");
  }

 private:
  static constexpr std::chrono::seconds kLong{100};

  void receive_one(Subscriber& subscriber) {
    Sample sample;
    if (subscriber.receive(sample, kLong) != tensorbus::Outcome::kDone)
      throw std::runtime_error("a sample was lost");
  }

  Publisher publisher_;
  std::deque<Subscriber> subscribers_;
  const tensorbus::Layout layout_ = tensorbus::Layout::contiguous(tensorbus::DType::kUInt8, {64});
  const tensorbus::Layout rows_layout_ =
      tensorbus::Layout::contiguous(tensorbus::DType::kUInt8, {kBatch, 64});
  std::array<std::byte, kBatch * 64> rows_{};
  std::vector<Loan> loans_;
  std::array<Sample, kBatch> samples_;
  std::array<std::byte, 64> copied_{};
  std::array<std::byte, 48> fields_{std::byte{0xc4}, std::byte{46}};  // MessagePack: binary
  tensorbus::Message message_;
  tensorbus::Message copied_message_;
};

template <typename... Api>
void count_calls(const std::string& interface,
                 const std::tuple_element_t<0, std::tuple<Api...>>& participant) {
  const auto named = [&](const char* row) { return interface + ": " + row; };
  const auto nothing = [] {};
  CountedTopic<Api...> one(participant, interface + "/one", 1);
  const auto receive = [&] { one.receive(); };
  const auto let_go = [&] {
    one.receive();
    one.let_go_of_loans();
  };
  const auto publish_loans = [&] {
    one.loan();
    one.publish_loans();
    one.let_go_of_loans();
  };
  const auto publish_fields = [&] { one.publish_fields(); };
  count(
      named("a loan of 64 B, all its way, one at a time"), nothing,
      [&] { one.pass_on_one_by_one(); }, nothing);
  count(named("loan() of 64 B"), nothing, [&] { one.loan(); }, [&] { one.let_go_of_loans(); });
  count(
      named("publish() of a loan of 64 B"), [&] { one.loan(); }, [&] { one.publish_loans(); },
      let_go);
  count(
      named("publish() of 64 B that are copied"), nothing, [&] { one.publish_copies(); }, receive);
  count(named("publish() of 48 B of fields"), nothing, publish_fields, receive);
  count(named("receive() and release of a loan"), publish_loans, receive, nothing);
  count(named("receive() and release of 48 B of fields"), publish_fields, receive, nothing);
  const auto receive_many = [&] { one.receive_many(); };
  count(named("receive_many() of 64 loans, each"), publish_loans, receive_many, nothing);
  count(named("receive_many() of 64 times 48 B of fields, each"), publish_fields, receive_many,
        nothing);
  const auto publish_many = [&] { one.publish_many(); };
  const auto receive_into = [&] { one.receive_into(); };
  count(named("publish_many() of 64 rows of 64 B, each"), nothing, publish_many, receive_into);
  count(named("receive_into() of 64 rows of 64 B, each"), publish_many, receive_into, nothing);
  CountedTopic<Api...> five(participant, interface + "/five", 5);
  count(
      named("publish() of 48 B of fields to five"), nothing, [&] { five.publish_fields(); },
      [&] { five.receive(); });
}

}  // namespace bench
