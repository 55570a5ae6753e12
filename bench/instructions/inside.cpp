#include "instructions/counted_calls.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscriber.hpp"

void bench::count_inside(const std::string& domain) {
  using namespace tensorbus::bus;
  count_calls<ParticipantRef, Publisher, Subscriber, Loan, Sample>(
      "inside", make_participant({.domain = domain}));
}
