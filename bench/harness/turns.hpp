#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/report.hpp"
#include "harness/two_processes.hpp"

// Rows that are compared with each other take many short turns in each repetition and not one long
// one, so that what the machine does meanwhile hits all of them alike. A neighbour on the other
// thread of a core comes and goes within milliseconds.

namespace bench {

// What one process has measured in all turns of a repetition.
class Rows {
 public:
  void add(const std::string& row, const Histogram& ticks) {
    const auto [at, is_new] = of_.try_emplace(row);
    if (is_new) names_.push_back(row);
    at->second.add(ticks);
  }

  // In the order in which the rows came first.
  void report(int repetition) const {
    for (const std::string& name : names_) bench::report(name, repetition, of_.at(name));
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, Histogram> of_;
};

// Calls turn(rows), which runs every row once, as often as the repetitions have turns. The sender's
// rows are told before the receiver's.
template <typename Turn>
void repeat_in_turns(TwoProcesses& both, const Arguments& arguments, Turn turn) {
  for (int repetition = 0; repetition < arguments.repetitions(); ++repetition) {
    Rows rows;
    for (int i = 0; i < arguments.turns(); ++i) turn(rows);
    if (both.is_sender()) rows.report(repetition);
    both.meet();
    if (!both.is_sender()) rows.report(repetition);
  }
}

}  // namespace bench
