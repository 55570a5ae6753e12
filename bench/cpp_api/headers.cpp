#include <tensorbus/tensorbus.hpp>

#include "cpp_api/timed_calls.hpp"

bench::CallTimes bench::time_headers(const std::string& domain, int batches) {
  using namespace tensorbus;
  return timed<Publisher, Subscriber, Sample>(Participant({.domain = domain}), batches);
}
