#include "cpp_api/timed_calls.hpp"
#include "tensorbus/core.hpp"

bench::CallTimes bench::time_inside(const std::string& domain, int batches) {
  return timed<tensorbus::Participant, tensorbus::bus::Publisher, tensorbus::bus::Subscriber,
               tensorbus::Sample>(domain, batches);
}
