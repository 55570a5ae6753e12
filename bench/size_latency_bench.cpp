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

  void run(const char* how, const Pace& pace, Rows& rows, bool sleeps, bool reads) {
    way.run(std::string(size.name) + ", " + how, pace, rows, sleeps, reads);
  }
};

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const Pace polled{.messages = 2'000, .warm_up = 200, .pause_ns = 2'000};
  const Pace read{.messages = 100, .warm_up = 10, .pause_ns = 2'000};
  const Pace asleep{.messages = 250, .warm_up = 25, .pause_ns = kSleepPauseNs};

  Shared<WakeStage> stage;
  const int event = ::eventfd(0, 0);
  TwoProcesses both;
  {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    std::vector<std::unique_ptr<SizedWay>> ways;
    for (const Size& size : kSizes)
      ways.push_back(std::make_unique<SizedWay>(SizedWay{size, {both, participant, size}}));
    repeat_in_turns(both, arguments, [&](Rows& rows) {
      line_round_trip(both, polled, rows);
      for (auto& way : ways) way->run("polled", polled, rows, false, false);
    });
    repeat_in_turns(both, arguments, [&](Rows& rows) {
      for (auto& way : ways) way->run("polled, pages read", read, rows, false, true);
    });
    repeat_in_turns(both, arguments, [&](Rows& rows) {
      futex_one_way(both, *stage, asleep, rows);
      eventfd_one_way(both, *stage, event, asleep, rows);
      for (auto& way : ways) way->run("asleep", asleep, rows, true, false);
    });
  }
}
