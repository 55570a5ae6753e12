// One way at every size, a loan from the publisher to the subscriber in hand, polled and asleep,
// beside a cache line, a futex and an eventfd that two processes share; and until a byte of each
// page has been read.

#include <memory>
#include <optional>
#include <vector>

#include "harness/floors.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Loan;
using tensorbus::Outcome;
using tensorbus::Sample;

struct Size {
  const char* name;
  std::uint64_t bytes;
};
constexpr Size kSizes[] = {{"64 B", 64},
                           {"64 KB", 1 << 16},
                           {"1 MB", 1 << 20},
                           {"24.9 MB", 1920 * 1080 * 3 * 4},
                           {"100 MB", 100'000'000}};
constexpr std::size_t kPage = 4096;

void read_every_page(const std::byte* data, std::size_t bytes) {
  unsigned sum = 0;
  for (std::size_t at = 0; at < bytes; at += kPage)
    sum += *reinterpret_cast<const volatile unsigned char*>(data + at);
  static_cast<void>(sum);
}

// One topic: a publisher here and a subscriber there, of loans of one size.
class Way {
 public:
  Way(TwoProcesses& both, const tensorbus::Participant& participant, const Size& size)
      : both_(both),
        size_(size),
        layout_(tensorbus::Layout::contiguous(tensorbus::DType::kUInt8,
                                              {static_cast<std::int64_t>(size.bytes)})) {
    if (both.is_sender()) {
      publisher_.emplace(size.name, tensorbus::PublisherOptions{}, participant);
      require(publisher_->wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    } else {
      subscriber_.emplace(size.name, tensorbus::SubscriberOptions{.spin = 0s}, participant);
      require(subscriber_->wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
    }
  }

  // `reads`: the clock stops when the pages have been read, too.
  void run(const char* how, const Pace& pace, int repetition, bool sleeps, bool reads) {
    if (both_.is_sender())
      return send_paced(
          both_, pace, [&] { return publisher_->loan(layout_); },
          [&](Loan& loan) {
            write_ticks(loan.data(), ticks_before());
            publisher_->publish(std::move(loan));
          });
    Histogram latency;
    receive_paced(both_, pace, latency, [&](std::uint64_t) {
      Sample sample;
      receive(sample, sleeps);
      if (reads) read_every_page(sample.tensor().data(), size_.bytes);
      const std::uint64_t now = ticks_after();
      return ticks_between(read_ticks(sample.tensor().data()), now);
    });
    report(std::string(size_.name) + ", " + how, repetition, latency);
  }

 private:
  void receive(Sample& sample, bool sleeps) {
    if (sleeps)
      return require(subscriber_->receive(sample, 10s) == Outcome::kDone, "no sample came");
    while (subscriber_->try_receive(sample) != Outcome::kDone) {
    }
  }

  TwoProcesses& both_;
  const Size& size_;
  tensorbus::Layout layout_;
  std::optional<tensorbus::Publisher> publisher_;
  std::optional<tensorbus::Subscriber> subscriber_;
};

// A pause is long enough for the receiver to fall asleep.
constexpr std::uint64_t kSleepPauseNs = 50'000;

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t part = arguments.quick ? 8 : 1;
  const Pace polled{.messages = 20'000 / part, .warm_up = 500, .pause_ns = 2'000};
  const Pace read{.messages = 1'000 / part, .warm_up = 50, .pause_ns = 2'000};
  const Pace asleep{.messages = 2'500 / part, .warm_up = 50, .pause_ns = kSleepPauseNs};

  Shared<WakeStage> stage;
  const int event = ::eventfd(0, 0);
  TwoProcesses both;
  {
    const tensorbus::Participant participant(both.participant_options());
    std::vector<std::unique_ptr<Way>> ways;
    for (const Size& size : kSizes) ways.push_back(std::make_unique<Way>(both, participant, size));
    for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
      line_round_trip(both, polled, repetition);
      for (auto& way : ways) way->run("polled", polled, repetition, false, false);
      for (auto& way : ways) way->run("polled, pages read", read, repetition, false, true);
      futex_one_way(both, *stage, asleep, repetition);
      eventfd_one_way(both, *stage, event, asleep, repetition);
      for (auto& way : ways) way->run("asleep", asleep, repetition, true, false);
    }
  }
}
