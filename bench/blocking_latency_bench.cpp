// One way from one process to another, the receiver asleep: a message of the bus beside a futex in
// memory that both processes map, and an eventfd.

#include "harness/floors.hpp"
#include "harness/loan_way.hpp"

using namespace bench;

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  // The pause is long enough for the receiver to fall asleep.
  const Pace pace{.messages = 500, .warm_up = 50, .pause_ns = 50'000};

  Shared<WakeStage> stage;
  const int event = ::eventfd(0, 0);
  TwoProcesses both;
  {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    LoanWay small(both, participant, kSizes[0]);
    LoanWay image(both, participant, kSizes[3]);
    repeat_in_turns(both, arguments, [&](Rows& rows) {
      futex_one_way(both, *stage, pace, rows);
      eventfd_one_way(both, *stage, event, pace, rows);
      small.run("64 B loan, asleep", pace, rows, true, false);
      image.run("24.9 MB loan, asleep", pace, rows, true, false);
    });
  }
}
