#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "harness/messages.hpp"
#include "harness/sizes.hpp"
#include "harness/turns.hpp"

namespace bench {

// A byte of each.
inline void read_every_page(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  unsigned sum = 0;
  for (std::size_t at = 0; at < bytes; at += kPage)
    sum += *reinterpret_cast<const volatile unsigned char*>(data + at);
  static_cast<void>(sum);
}

// One topic: a publisher here and a subscriber there, of loans of one size.
class LoanWay {
 public:
  LoanWay(TwoProcesses& both, const tensorbus::bus::ParticipantRef& participant, const Size& size)
      : both_(both),
        size_(size),
        layout_(tensorbus::Layout::contiguous(tensorbus::DType::kUInt8,
                                              {static_cast<std::int64_t>(size.bytes)})) {
    using tensorbus::Outcome;
    if (both.is_sender()) {
      publisher_.emplace(size.name, tensorbus::PublisherOptions{}, participant);
      require(publisher_->wait_for_subscribers(1, kPatience) == Outcome::kDone,
              "no subscriber came");
    } else {
      subscriber_.emplace(size.name,
                          tensorbus::SubscriberOptions{.spin = std::chrono::nanoseconds(0)},
                          participant);
      require(subscriber_->wait_for_publishers(1, kPatience) == Outcome::kDone,
              "no publisher came");
    }
  }

  // `reads`: the clock stops when the pages have been read, too.
  void run(const std::string& row, const Pace& pace, Rows& rows, bool sleeps, bool reads) {
    SentAt sent(both_);
    if (both_.is_sender())
      return send_paced(
          both_, pace, [&] { return written_loan(*publisher_, layout_); },
          [&](tensorbus::bus::Loan& loan) {
            const std::uint64_t begin = ticks_before();
            publisher_->publish(std::move(loan));
            sent.tell(begin);
          });
    Histogram latency;
    receive_paced(both_, pace, latency, [&](std::uint64_t) {
      tensorbus::bus::Sample sample;
      receive(sample, sleeps);
      if (reads) read_every_page(sample.tensor().data(), size_.bytes);
      const std::uint64_t now = ticks_after();
      return ticks_between(sent.hear(), now);
    });
    rows.add(row, latency);
  }

 private:
  static constexpr std::chrono::seconds kPatience{10};

  void receive(tensorbus::bus::Sample& sample, bool sleeps) {
    using tensorbus::Outcome;
    if (sleeps)
      return require(subscriber_->receive(sample, kPatience) == Outcome::kDone, "no sample came");
    while (subscriber_->try_receive(sample) != Outcome::kDone) {
    }
  }

  TwoProcesses& both_;
  const Size size_;
  tensorbus::Layout layout_;
  std::optional<tensorbus::bus::Publisher> publisher_;
  std::optional<tensorbus::bus::Subscriber> subscriber_;
};

}  // namespace bench
