// One way at every size, a loan from the publisher to the subscriber in hand, polled and asleep,
// beside a cache line, a futex and an eventfd that two processes share; and until a byte of each
// page has been read.

#include <memory>
#include <string>
#include <vector>

#include "harness/floors.hpp"
#include "harness/loan_way.hpp"

namespace {

using namespace bench;

// A pause is long enough for the receiver to fall asleep.
constexpr std::uint64_t kSleepPauseNs = 50'000;

struct SizedWay {
  const Size& size;
  LoanWay way;

  void run(const char* how, const Pace& pace, int repetition, bool sleeps, bool reads) {
    way.run(std::string(size.name) + ", " + how, pace, repetition, sleeps, reads);
  }
};

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const std::uint64_t part = arguments.quick ? 16 : 1;
  const Pace polled{.messages = 20'000 / part, .warm_up = 500, .pause_ns = 2'000};
  const Pace read{.messages = 1'000 / part, .warm_up = 50, .pause_ns = 2'000};
  const Pace asleep{.messages = 2'500 / part, .warm_up = 50, .pause_ns = kSleepPauseNs};

  Shared<WakeStage> stage;
  const int event = ::eventfd(0, 0);
  TwoProcesses both;
  {
    const tensorbus::Participant participant(both.participant_options());
    std::vector<std::unique_ptr<SizedWay>> ways;
    for (const Size& size : kSizes)
      ways.push_back(std::make_unique<SizedWay>(SizedWay{size, {both, participant, size}}));
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
