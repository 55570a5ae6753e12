// What C++ programs pay for calling the bus through the C interface: the same calls through the
// classes inside, and through the public headers, in turns.

#include <cstdlib>
#include <filesystem>

#include "cpp_api/bus_calls.hpp"
#include "harness/report.hpp"

int main(int count, char** values) {
  using namespace bench;
  const Arguments arguments = Arguments::parse(count, values);
  const int batches = arguments.quick ? 500 : 3000;
  std::string domain = "/tmp/tensorbus-bench-XXXXXX";
  if (::mkdtemp(domain.data()) == nullptr) return 1;
  for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
    const CallTimes inside = time_inside(domain, batches);
    const CallTimes headers = time_headers(domain, batches);
    report("inside", repetition,
           {{"receive_ns", inside.receive_ns}, {"publish_ns", inside.publish_ns}});
    report("public headers", repetition,
           {{"receive_ns", headers.receive_ns}, {"publish_ns", headers.publish_ns}});
  }
  std::filesystem::remove_all(domain);
}
