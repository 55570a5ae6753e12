// How many instructions a call takes: scripts/instructions has it run by callgrind, which counts
// the same on a busy machine and on an idle one.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "instructions/bus_calls.hpp"
#include "instructions/counting.hpp"

int main() {
  std::string domain = "/tmp/tensorbus-bench-XXXXXX";
  if (::mkdtemp(domain.data()) == nullptr) return 1;
  bench::count_inside(domain);
  bench::count_headers(domain);
  std::printf("{\"calls\": %d}\n", bench::kBatch * bench::kBatches);
  std::filesystem::remove_all(domain);
}
