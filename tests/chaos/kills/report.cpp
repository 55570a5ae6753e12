#include "report.hpp"

#include <algorithm>
#include <istream>
#include <ostream>
#include <sstream>

namespace tensorbus::kills {
namespace {

// Names have spaces, so they come last.
std::string rest_of(std::istream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  return rest;
}

std::uint64_t at(const std::map<std::string, std::uint64_t>& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

void compare(const Report& before, const Report& now, const std::string& process,
             std::vector<std::string>& wrong) {
  std::set<std::string> names;
  for (const auto& [name, count] : before.must_stay) names.insert(name);
  for (const auto& [name, count] : now.must_stay) names.insert(name);
  for (const std::string& name : names)
    if (at(before.must_stay, name) != at(now.must_stay, name))
      wrong.push_back(process + name + ": " + std::to_string(at(now.must_stay, name)) + ", was " +
                      std::to_string(at(before.must_stay, name)));
  if (at(now.totals, "wrong") != 0) wrong.push_back(process + "wrong samples");
}

}  // namespace

void Report::write(std::ostream& out) const {
  for (const auto& [name, count] : must_stay) out << "stay " << count << ' ' << name << '\n';
  for (const auto& [name, count] : totals) out << "total " << count << ' ' << name << '\n';
  for (const auto inode : segments_seen) out << "seen " << inode << '\n';
  for (const auto inode : segments_owned) out << "owned " << inode << '\n';
  for (const auto& id : participants) out << "participant " << id << '\n';
  for (const auto& [topic, sequences] : written)
    for (const auto& [writer, last] : sequences)
      out << "written " << topic << ' ' << writer << ' ' << last << '\n';
  for (const auto& [reader, what] : heard) {
    out << "reader " << what.first << ' ' << reader << '\n';
    for (const auto& [writer, last] : what.second)
      out << "heard " << writer << ' ' << last << ' ' << reader << '\n';
  }
  out << "end" << std::endl;
}

Report Report::read(std::istream& in) {
  Report report;
  for (std::string line; std::getline(in, line) && line != "end";) {
    std::istringstream words(line);
    std::string kind, topic;
    std::uint64_t number = 0, last = 0;
    words >> kind;
    if (kind == "participant") {
      report.participants.push_back(rest_of(words));
    } else if (kind == "written") {
      words >> topic >> number >> last;
      report.written[topic][number] = last;
    } else if (kind == "reader") {
      words >> topic;
      report.heard[rest_of(words)].first = topic;
    } else {
      words >> number;
      if (kind == "stay") report.must_stay[rest_of(words)] = number;
      if (kind == "total") report.totals[rest_of(words)] = number;
      if (kind == "seen") report.segments_seen.insert(number);
      if (kind == "owned") report.segments_owned.insert(number);
      if (kind == "heard") {
        words >> last;
        report.heard[rest_of(words)].second[number] = last;
      }
    }
  }
  return report;
}

std::vector<std::string> complaints(const std::vector<Report>& before,
                                    const std::vector<Report>& now,
                                    const std::set<std::string>& files) {
  std::vector<std::string> wrong;
  std::set<std::uint64_t> segments;
  std::vector<std::string> living;
  for (std::size_t i = 0; i < now.size(); ++i) {
    compare(before[i], now[i], "process " + std::to_string(i) + ": ", wrong);
    segments.insert(now[i].segments_owned.begin(), now[i].segments_owned.end());
    living.insert(living.end(), now[i].participants.begin(), now[i].participants.end());
  }
  std::uint64_t owned = 0;
  for (const Report& report : now) owned += at(report.totals, "segments of its own");
  if (segments.size() != owned)
    wrong.push_back(std::to_string(segments.size()) + " segments are open for writing, and " +
                    std::to_string(owned) + " have an owner");
  for (const Report& report : now) {
    for (const std::uint64_t inode : report.segments_seen)
      if (!segments.contains(inode))
        wrong.push_back("process " + std::to_string(&report - now.data()) +
                        ": a segment that no longer has an owner: inode " + std::to_string(inode));
    for (const auto& [reader, heard] : report.heard)
      for (const Report& other : now) {
        const auto written = other.written.find(heard.first);
        if (written == other.written.end()) continue;
        for (const auto& [writer, last] : written->second)
          if (const auto found = heard.second.find(writer);
              found == heard.second.end() || found->second != last)
            wrong.push_back(
                reader + " did not hear " + heard.first + " sample " + std::to_string(last) +
                ", but " +
                (found == heard.second.end() ? "nothing" : std::to_string(found->second)));
      }
  }
  for (const std::string& file : files)
    if (std::none_of(living.begin(), living.end(),
                     [&](const std::string& id) { return file.find(id) != std::string::npos; }))
      wrong.push_back("a file of the dead: " + file);
  return wrong;
}

}  // namespace tensorbus::kills
