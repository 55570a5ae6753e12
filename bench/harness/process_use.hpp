#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace bench {

// A line "Pss:  123 kB" of a file in /proc.
inline double proc_bytes(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  double kibibytes = 0;
  while (file >> word)
    if (word == key && file >> kibibytes) return kibibytes * 1024;
  return 0;
}

// What this process takes from the machine. Pss counts a page by how many processes share it, so
// that it moves when a stranger starts or ends who maps the same library; Rss does not.
inline double pss_bytes() { return proc_bytes("/proc/self/smaps_rollup", "Pss:"); }
inline double rss_bytes() { return proc_bytes("/proc/self/smaps_rollup", "Rss:"); }

inline double open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<double>(std::distance(begin(all), end(all))) - 1;  // without `all`
}

struct ThreadUse {
  double cpu_ns = 0;
  double wake_ups = 0;
};

// What all threads of this process but the calling one have used so far.
inline ThreadUse use_of_other_threads() {
  const auto clock_ns = [](clockid_t clock) {
    timespec used{};
    ::clock_gettime(clock, &used);
    return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
  };
  const auto switches = [](int who) {
    rusage use{};
    ::getrusage(who, &use);
    return static_cast<double>(use.ru_nvcsw);
  };
  // The caller's own time goes on in between: read first what is subtracted last.
  const double own_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const double all_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  return {all_ns - own_ns, switches(RUSAGE_SELF) - switches(RUSAGE_THREAD)};
}

}  // namespace bench
