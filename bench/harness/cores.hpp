#pragma once

#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/shared_memory.hpp"

namespace bench {

inline std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) < 0) die("sched_getaffinity");
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// What the kernel says of a core: "core_id", "physical_package_id".
inline std::string topology(int core, const std::string& what) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/" + what);
  std::string value;
  file >> value;
  return value;
}

struct CorePair {
  int sender = 0;
  int receiver = 0;
};

// TENSORBUS_BENCH_CORES="2,3", or two cores of one package that are not two threads of one core.
inline CorePair core_pair() {
  CorePair pair;
  if (const char* text = std::getenv("TENSORBUS_BENCH_CORES")) {
    char comma = 0;
    if (std::istringstream(text) >> pair.sender >> comma >> pair.receiver) return pair;
    std::fprintf(stderr, "TENSORBUS_BENCH_CORES: expected \"2,3\", got \"%s\"\n", text);
    std::exit(2);
  }
  const std::vector<int> cores = allowed_cores();
  pair.sender = cores.front();
  for (const int core : cores) {
    if (core == pair.sender ||
        topology(core, "physical_package_id") != topology(pair.sender, "physical_package_id"))
      continue;
    pair.receiver = core;
    if (topology(core, "core_id") != topology(pair.sender, "core_id")) return pair;
  }
  if (pair.receiver != pair.sender) return pair;
  std::fprintf(stderr, "two processes need two cores of one package\n");
  std::exit(2);
}

// Every thread that this one starts afterwards stays there too.
inline void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof set, &set) < 0) die("sched_setaffinity");
}

}  // namespace bench
