#pragma once

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "harness/histogram.hpp"
#include "harness/ticks.hpp"

namespace bench {

struct Arguments {
  bool quick = false;

  static Arguments parse(int count, char** values) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) arguments.quick |= std::string_view(values[i]) == "--quick";
    return arguments;
  }
  int repetitions() const noexcept { return quick ? 2 : 7; }
  // Of each repetition, where rows take turns (harness/turns.hpp).
  int turns() const noexcept { return quick ? 1 : 10; }
};

// One JSON object a line, for run.py: what one repetition of one row measured. Keys and names are
// ours and need no escaping.
using Measured = std::pair<std::string_view, double>;
inline void report(std::string_view row, int repetition, std::initializer_list<Measured> values) {
  std::string line =
      "{\"row\": \"" + std::string(row) + "\", \"repetition\": " + std::to_string(repetition);
  for (const auto& [key, value] : values)
    line += ", \"" + std::string(key) + "\": " + std::to_string(value);
  std::puts((line + "}").c_str());
  std::fflush(stdout);
}

// A row that cannot be measured here is named, with the reason.
inline void report_absent(std::string_view row, std::string_view why) {
  const std::string line = "{\"row\": \"" + std::string(row) +
                           "\", \"repetition\": 0, \"absent\": \"" + std::string(why) + "\"}";
  std::puts(line.c_str());
  std::fflush(stdout);
}

// Of durations in ticks.
inline void report(std::string_view row, int repetition, const Histogram& ticks) {
  const auto ns = [&](double part) { return ticks.percentile(part) * ns_per_tick(); };
  report(row, repetition, {{"p50_ns", ns(0.5)}, {"p99_ns", ns(0.99)}, {"p999_ns", ns(0.999)}});
}

}  // namespace bench
