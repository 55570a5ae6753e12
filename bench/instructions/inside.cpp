#include "instructions/counted_calls.hpp"
#include "tensorbus/core.hpp"

void bench::count_inside(const std::string& domain) {
  using namespace tensorbus;
  count_calls<bus::Participant, bus::Publisher, bus::Subscriber, bus::Loan, bus::Sample>("inside",
                                                                                         domain);
}
