#include <tensorbus/tensorbus.hpp>

#include "instructions/counted_calls.hpp"

void bench::count_headers(const std::string& domain) {
  using namespace tensorbus;
  const Participant participant({.domain = domain});
  count_calls<Participant, Publisher, Subscriber, Loan, Sample>("headers", participant);
}
