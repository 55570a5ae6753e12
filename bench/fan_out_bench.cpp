// What each further subscriber costs: publish() of a loan of 64 bytes to 1, 2, 4, 8 and 16 of them.
//
// Awake: all of them belong to one process on the other core, which polls them in turn, so that
// none sleeps and there are no more awake than cores. Asleep: each is a process of its own on the
// other core, and waits in receive().

#include <array>
#include <vector>

#include "harness/messages.hpp"
#include "harness/process_use.hpp"
#include "harness/processes.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;
using tensorbus::bus::Sample;

constexpr int kMax = 16;
constexpr int kCounts[] = {1, 2, 4, 8, kMax};

struct Board {
  std::array<Line, kMax> taken;  // by each receiver
};

// Until `message` is with all the receivers, in however many processes.
void wait_for_all(Board& board, int receivers, std::uint64_t message) {
  for (int i = 0; i < receivers; ++i)
    while (board.taken[static_cast<std::size_t>(i)].word.load(std::memory_order_acquire) != message)
      relax();
}

struct Run {
  const char* how;
  int subscribers;
  int receivers;  // who write on the board
  Pace pace;
  int repetition;
};

void publish_all(Board& board, tensorbus::bus::Publisher& publisher, const Run& run,
                 double rss_before) {
  Histogram ticks;
  for (std::uint64_t message = 1; message <= run.pace.warm_up + run.pace.messages; ++message) {
    tensorbus::bus::Loan loan = publisher.loan(kSmall);
    spin_for(run.pace.pause_before(message));
    const std::uint64_t begin = ticks_before();
    publisher.publish(std::move(loan));
    const std::uint64_t end = ticks_after();
    if (message > run.pace.warm_up) ticks.add(end - begin);
    wait_for_all(board, run.receivers, message);
  }
  const auto ns = [&](double part) { return ticks.percentile(part) * ns_per_tick(); };
  report(std::to_string(run.subscribers) + " " + run.how, run.repetition,
         {{"publish_ns", ns(0.5)},
          {"p99_ns", ns(0.99)},
          {"rss_bytes", rss_bytes() - rss_before},
          {"descriptors", open_descriptors()}});
}

void receive_awake(Board& board, std::vector<tensorbus::bus::Subscriber>& subscribers,
                   const Run& run) {
  for (std::uint64_t message = 1; message <= run.pace.warm_up + run.pace.messages; ++message) {
    for (auto& subscriber : subscribers) {
      Sample sample;
      while (subscriber.try_receive(sample) != Outcome::kDone) {
      }
    }
    board.taken[0].word.store(message, std::memory_order_release);
  }
}

void receive_asleep(Line& taken, tensorbus::bus::Subscriber& subscriber, const Run& run) {
  for (std::uint64_t message = 1; message <= run.pace.warm_up + run.pace.messages; ++message) {
    Sample sample;
    require(subscriber.receive(sample, 30s) == Outcome::kDone, "no sample came");
    taken.word.store(message, std::memory_order_release);
  }
}

void measure(const Run& run, bool awake) {
  const OwnDomain domain;
  Shared<Board> board;
  const CorePair cores = core_pair();
  Processes processes;
  for (int i = 0; i < run.receivers; ++i)
    processes.start(cores.receiver, [&] {
      const tensorbus::bus::ParticipantRef participant =
          tensorbus::bus::make_participant({.domain = domain.path()});
      std::vector<tensorbus::bus::Subscriber> subscribers;
      for (int n = 0; n < (awake ? run.subscribers : 1); ++n)
        subscribers.emplace_back("fan", tensorbus::SubscriberOptions{.spin = 0s}, participant);
      if (awake) return receive_awake(*board, subscribers, run);
      receive_asleep(board->taken[static_cast<std::size_t>(i)], subscribers.front(), run);
    });
  processes.start(cores.sender, [&] {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant({.domain = domain.path()});
    const double before = rss_bytes();
    tensorbus::bus::Publisher publisher("fan", {}, participant);
    require(publisher.wait_for_subscribers(static_cast<std::uint32_t>(run.subscribers), 30s) ==
                Outcome::kDone,
            "not all subscribers came");
    publish_all(*board, publisher, run, before);
  });
  processes.join();
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t part = arguments.quick ? 8 : 1;
  const Pace awake{.messages = 10'000 / part, .warm_up = 500, .pause_ns = 2'000};
  const Pace asleep{.messages = 1'000 / part, .warm_up = 50, .pause_ns = 50'000};
  ns_per_tick();
  for (int repetition = 0; repetition < (arguments.quick ? 1 : 5); ++repetition) {
    for (const int subscribers : kCounts)
      measure({"awake", subscribers, 1, awake, repetition}, true);
    for (const int subscribers : kCounts)
      measure({"asleep", subscribers, subscribers, asleep, repetition}, false);
  }
}
