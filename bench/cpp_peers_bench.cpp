// One way at every size beside what people use in C++, all polled and in turn: from just before the
// message is sent to just after the receiver has it. The loan is taken before.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cpp_peers/iceoryx.hpp"
#include "harness/floors.hpp"
#include "harness/loan_way.hpp"

namespace {

using namespace bench;

struct Ways {
  const Size& size;
  LoanWay ours;
  std::unique_ptr<IceoryxWay> iceoryx;  // null: absent

  std::string row(const char* peer) const { return std::string(size.name) + ": " + peer; }
};

void measure(const Arguments& arguments, bool has_iceoryx) {
  const Pace pace{.messages = 2'000, .warm_up = 200, .pause_ns = 2'000};
  TwoProcesses both;
  {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    std::vector<std::unique_ptr<Ways>> all;
    for (const Size& size : kSizes)
      all.push_back(std::make_unique<Ways>(
          Ways{size,
               {both, participant, size},
               has_iceoryx ? std::make_unique<IceoryxWay>(both, size) : nullptr}));
    repeat_in_turns(both, arguments, [&](Rows& rows) {
      line_round_trip(both, pace, rows);
      for (auto& ways : all) {
        ways->ours.run(ways->row("tensorbus loan, polled"), pace, rows, false, false);
        if (ways->iceoryx) ways->iceoryx->run(ways->row(kIceoryx), pace, rows);
      }
    });
  }
}

// In a process of its own: the daemon of a peer outlives it.
int measure_apart(const Arguments& arguments, bool has_iceoryx) {
  const pid_t child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    measure(arguments, has_iceoryx);
    std::exit(0);  // who has joined a daemon leaves it
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const RouDi daemon;
  const bool has_iceoryx = daemon.why_not().empty();
  const int failed = measure_apart(arguments, has_iceoryx);
  if (!has_iceoryx) report_absent(kIceoryx, daemon.why_not());
  return failed;
}
