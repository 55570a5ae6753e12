#include "cpp_api/timed_calls.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscriber.hpp"

bench::CallTimes bench::time_inside(const std::string& domain, int batches) {
  using namespace tensorbus::bus;
  return timed<Publisher, Subscriber, Sample>(make_participant({.domain = domain}), batches);
}
