#include <tensorbus/tensorbus.hpp>

#include "cpp_api/timed_calls.hpp"

bench::CallTimes bench::time_headers(const std::string& domain, int batches) {
  return timed<tensorbus::Participant, tensorbus::Publisher, tensorbus::Subscriber,
               tensorbus::Sample>(domain, batches);
}
