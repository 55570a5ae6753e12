// One way from one process to another, the receiver asleep: a message of the bus beside a futex in
// memory that both processes map, and an eventfd.

#include "harness/floors.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Loan;
using tensorbus::Outcome;
using tensorbus::Sample;

void bus_one_way(TwoProcesses& both, const tensorbus::Participant& participant, const char* name,
                 const tensorbus::Layout& layout, const Pace& pace, Rows& rows) {
  if (both.is_sender()) {
    tensorbus::Publisher publisher(name, {}, participant);
    require(publisher.wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    return send_paced(
        both, pace, [&] { return publisher.loan(layout); },
        [&](Loan& loan) {
          write_ticks(loan.data(), ticks_before());
          publisher.publish(std::move(loan));
        });
  }
  tensorbus::Subscriber subscriber(name, {.spin = 0s}, participant);
  require(subscriber.wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
  Histogram latency;
  receive_paced(both, pace, latency, [&](std::uint64_t) {
    Sample sample;
    require(subscriber.receive(sample, 10s) == Outcome::kDone, "no sample came");
    const std::uint64_t now = ticks_after();
    return ticks_between(read_ticks(sample.tensor().data()), now);
  });
  rows.add(name, latency);
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  // The pause is long enough for the receiver to fall asleep.
  const Pace pace{.messages = 500, .warm_up = 50, .pause_ns = 50'000};

  Shared<WakeStage> stage;
  const int event = ::eventfd(0, 0);
  TwoProcesses both;
  {
    const tensorbus::Participant participant(both.participant_options());
    repeat_in_turns(both, arguments, [&](Rows& rows) {
      futex_one_way(both, *stage, pace, rows);
      eventfd_one_way(both, *stage, event, pace, rows);
      bus_one_way(both, participant, "64 B loan, asleep", kSmall, pace, rows);
      bus_one_way(both, participant, "24.9 MB loan, asleep", kImage, pace, rows);
    });
  }
}
