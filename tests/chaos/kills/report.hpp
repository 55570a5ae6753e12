#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ledger.hpp"

namespace tensorbus::kills {

// What one process of survivors says about itself in a calm.
struct Report {
  using Sequences = std::map<std::uint64_t, std::uint64_t>;  // writer -> last sequence

  std::map<std::string, std::uint64_t> must_stay;  // the same in every calm
  std::map<std::string, std::uint64_t> totals;     // since the start
  std::set<std::uint64_t> segments_seen;
  std::set<std::uint64_t> segments_owned;
  std::vector<std::string> participants;
  std::map<std::string, Sequences> written;                        // by topic
  std::map<std::string, std::pair<std::string, Sequences>> heard;  // reader -> topic, sequences

  void write(std::ostream& out) const;  // ends in a line "end"
  static Report read(std::istream& in);
};

// What is wrong in this calm, one thing a line; nothing if all is as it was before the storm.
std::vector<std::string> complaints(const std::vector<Report>& before,
                                    const std::vector<Report>& now,
                                    const std::set<std::string>& files);

}  // namespace tensorbus::kills
