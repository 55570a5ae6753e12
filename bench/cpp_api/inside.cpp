#include "cpp_api/timed_calls.hpp"
#include "tensorbus/core.hpp"

bench::CallTimes bench::time_inside(const std::string& domain, int batches) {
  return timed<tensorbus::bus::Participant, tensorbus::bus::Publisher, tensorbus::bus::Subscriber,
               tensorbus::bus::Sample>(domain, batches);
}
