// The random-kill harness.
//
//   kill_storm [--kills N] [--seed S]
//
// Two processes of survivors publish and receive all the time, on a few topics, in every manner
// that there is (survivors.hpp). Victims (victim.hpp) do the same on the same topics, six at a
// time, join and leave, open and close, and are killed at random moments: in the middle of joining
// or of a sample, stopped or not, one by one or together, some of them with a child that lives on.
// Every byte of every sample is checked when it comes and once more before it goes, also when who
// wrote it is long dead (traffic.hpp). After every hundred kills there is a calm, in which the
// survivors must have all back and nothing left over of the dead: leases, memory, descriptors,
// mappings, threads, files; and must hear each other (report.hpp). Who does the same for too long
// is told of by a watchdog, which ends it all (actor.hpp). For some kills it is measured how long
// after the death the leases are back (lease_probe.hpp).
//
// The seed decides what is done; when exactly, the machine does. Prints its figures; exits with 1
// if anything was wrong.

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <random>
#include <string>

#include "ledger.hpp"
#include "storm.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::kills {
namespace {

constexpr std::uint64_t kBatch = 100;
constexpr std::chrono::seconds kPatience{testing::kSanitized ? 120 : 40};
constexpr std::uint64_t kMaxGrowth = std::uint64_t{32} << 20;  // of plain memory of one process

void line(const std::string& name, const std::string& value) {
  std::printf("%-34s %s\n", name.c_str(), value.c_str());
}
void line(const std::string& name, std::uint64_t value) { line(name, std::to_string(value)); }

void print_times(const std::string& name, std::vector<std::chrono::nanoseconds> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1));
    return static_cast<double>(times[index].count()) / 1e6;
  };
  char text[160];
  std::snprintf(text, sizeof text, "p50 %.2f  p99 %.2f  max %.2f  (%zu kills, %zu beyond 50 ms)",
                at(0.5), at(0.99), at(1), times.size(),
                static_cast<std::size_t>(std::count_if(times.begin(), times.end(),
                                                       [](auto time) { return time > 50ms; })));
  line(name, text);
}

std::uint64_t sum(const std::vector<Report>& reports, const std::string& total) {
  std::uint64_t sum = 0;
  for (const Report& report : reports)
    if (const auto found = report.totals.find(total); found != report.totals.end())
      sum += found->second;
  return sum;
}
// What must stay and whose name begins so.
std::uint64_t kept(const Report& report, const std::string& prefix) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : report.must_stay)
    if (name.starts_with(prefix)) sum += count;
  return sum;
}

void print_before_and_after(const Storm& storm) {
  for (const std::string what : {"descriptors", "mappings", "arena", "threads"})
    for (std::size_t i = 0; i < storm.before().size(); ++i)
      line(what + ", process " + std::to_string(i),
           std::to_string(kept(storm.before()[i], what)) + " before, " +
               std::to_string(kept(storm.after()[i], what)) + " after");
}

void print_figures(const Storm& storm) {
  const Figures& figures = storm.figures();
  std::uint64_t kills = 0;
  for (const auto& [moment, count] : figures.by_moment) kills += count;
  line("kills", kills);
  for (const auto& [moment, count] : figures.by_moment) line("  killed " + moment, count);
  for (const auto& [role, count] : figures.by_role) line("  of " + role, count);
  line("children that lived on", figures.orphans);
  line("samples published by survivors", sum(storm.after(), "published"));
  for (const char* name : {"timed out", "dropped for newer ones", "dropped, too many held"})
    line(std::string("  ") + name, sum(storm.after(), name));
  line("samples checked", sum(storm.after(), "checked"));
  line("  and again before they went", sum(storm.after(), "checked again"));
  line("wrong samples", sum(storm.after(), "wrong"));
  line("calms, as before the storm", figures.calms);
  line("  the longest took, ms", static_cast<std::uint64_t>(figures.longest_calming.count()));
  std::printf("ms from the death until all leases were back\n");
  for (const auto& [what, times] : figures.lease_times) print_times("  " + what, times.since_death);
  std::printf("ms from the signal until then\n");
  for (const auto& [what, times] : figures.lease_times) print_times("  " + what, times.since_kill);
  print_before_and_after(storm);
}

// Nothing is left of us. The rest of this process is as it was, or not ours.
std::vector<std::string> leftovers(const std::string& domain) {
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(domain))
    left.push_back("a file: " + entry.path().string());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().string().find("tensorbus") != std::string::npos)
      left.push_back("shared memory: " + entry.path().string());
  const Ledger ledger = Ledger::now();
  for (const auto& [what, count] : ledger.counts) {
    // One of each is the process's own, to look after forked children
    // (platform/fork/inherited.hpp).
    const bool own = what.find("memfd:tensorbus-forks") != std::string::npos ||
                     what == "descriptors: anon_inode";
    if (own && count == 1) continue;
    if (what.starts_with("mappings") || what.find("socket") != std::string::npos ||
        what.find("memfd") != std::string::npos || what.find("anon_inode") != std::string::npos)
      left.push_back(what + ": " + std::to_string(count));
  }
  if (!ledger.segments_seen.empty()) left.push_back("segments");
  if (::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD) left.push_back("a process");
  return left;
}

int run(std::uint64_t kills, std::uint64_t seed) {
  adopt_orphans();
  std::signal(SIGPIPE, SIG_IGN);
  const testing::FreshDomain domain;
  const auto start = platform::Clock::now();
  Storm storm(domain.path(), seed);
  std::vector<std::uint64_t> warm;  // plain memory after the first batch
  for (std::uint64_t done = 0; done < kills && storm.wrong().empty();) {
    const std::uint64_t count = std::min(kBatch, kills - done);
    storm.kill(count);
    done += count;
    if (warm.empty())
      for (const Report& report : storm.after())
        warm.push_back(report.totals.at("anonymous bytes"));
    if (done % 1000 == 0)
      std::fprintf(stderr, "%llu killed\n", static_cast<unsigned long long>(done));
  }
  const std::chrono::duration<double> seconds = platform::Clock::now() - start;
  line("seed", seed);
  print_figures(storm);
  std::vector<std::string> wrong = storm.wrong();
  for (std::size_t i = 0; i < warm.size(); ++i) {
    const std::uint64_t end = storm.after()[i].totals.at("anonymous bytes");
    line("plain memory, process " + std::to_string(i),
         std::to_string(warm[i] >> 10) + " KiB after " + std::to_string(kBatch) + " kills, " +
             std::to_string(end >> 10) + " KiB at the end");
    line("resident, process " + std::to_string(i),
         std::to_string(storm.before()[i].totals.at("resident bytes") >> 10) + " KiB before, " +
             std::to_string(storm.after()[i].totals.at("resident bytes") >> 10) +
             " KiB at the end");
    // A sanitizer keeps what was freed.
    if (!testing::kSanitized && end > warm[i] + kMaxGrowth) wrong.push_back("plain memory grew");
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", seconds.count());
  line("seconds", text);
  if (wrong.empty()) {
    storm.end();
    wrong = storm.wrong();
    for (const std::string& left : leftovers(domain.path())) wrong.push_back("left over: " + left);
  }
  line("result", wrong.empty() ? "all as before" : "WRONG");
  for (const std::string& what : wrong) std::printf("  %s\n", what.c_str());
  return wrong.empty() ? 0 : 1;
}

int main_of(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t i) { return std::stoull(words.at(i)); };
  if (!words.empty() && words[0] == "victim") {
    end_with_parent();
    return be_a_victim(words.at(1), number(2), static_cast<Role>(number(3)));
  }
  if (!words.empty() && words[0] == "hoarder") {
    end_with_parent();
    return be_a_hoarder(words.at(1), static_cast<Role>(number(2)));
  }
  const bool far = !words.empty() && words[0] == "survivors";
  const Watchdog watchdog(far ? "other" : "first", kPatience);
  if (far) {
    end_with_parent();
    return be_far_survivors(words.at(1), number(2));
  }
  std::uint64_t kills = 200;
  std::uint64_t seed = std::random_device()();
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (words[i] == "--kills")
      kills = number(i + 1);
    else if (words[i] == "--seed")
      seed = number(i + 1);
    else
      throw std::invalid_argument(words[i] + ": expected --kills N or --seed S");
  }
  return run(kills, seed);
}

}  // namespace
}  // namespace tensorbus::kills

int main(int count, char** words) {
  try {
    return tensorbus::kills::main_of({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kill_storm %s: %s\n", count > 1 ? words[1] : "", error.what());
    return 1;
  }
}
