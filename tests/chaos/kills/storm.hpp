#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "child.hpp"
#include "lease_probe.hpp"
#include "survivors.hpp"
#include "victim.hpp"

namespace tensorbus::kills {

// When a victim is killed, counted from its start.
enum class Moment : std::uint8_t {
  kStarting,  // within 30 ms: joining, shaking hands
  kEarly,     // within 150 ms
  kLate,      // within half a second
  kStopped,   // while it is stopped by SIGSTOP
  kResumed,   // after it was stopped for a while
  kTogether,  // with all others that live
  kMeasured,  // when it holds what is to come back
};
inline constexpr std::array<const char*, 7> kMoments = {
    "starting", "early", "late", "stopped", "after a stop", "all together", "measured"};

struct Figures {
  std::map<std::string, std::uint64_t> by_moment, by_role;
  std::uint64_t orphans = 0;
  std::uint64_t calms = 0;
  std::map<std::string, LeaseTimes> lease_times;  // by what it was in, and what child lived on
  std::chrono::milliseconds longest_calming{0};
};

// The second process of survivors, told what to do by a pipe.
class FarSurvivors {
 public:
  FarSurvivors(const std::string& domain, std::uint64_t seed);
  ~FarSurvivors();

  // Each returns when it is done; they throw when that process has ended.
  void calm_down() { (void)ask("calm"); }
  void storm() { (void)ask("storm"); }
  Report report() { return ask("report"); }
  // As waitpid() says it.
  int leave();
  pid_t pid() const noexcept { return child_.pid(); }

 private:
  Report ask(const std::string& what);

  Child child_;
  std::string buffer_;
};
int be_far_survivors(const std::string& domain, std::uint64_t seed);

// Kills so many, with a calm after each batch in which all has to be as before.
class Storm {
 public:
  Storm(const std::string& domain, std::uint64_t seed);

  void kill(std::uint64_t count);
  const std::vector<std::string>& wrong() const noexcept { return wrong_; }
  const Figures& figures() const noexcept { return figures_; }
  const std::vector<Report>& before() const noexcept { return before_; }
  const std::vector<Report>& after() const noexcept { return after_; }
  // All survivors leave.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Victim;

  Victim start_victim();
  void batch(std::uint64_t count);
  void act_on(std::vector<Victim>& alive);
  void bury(std::vector<Victim> dead);
  void end_orphans(bool all);
  void measure(const std::string& in, Random& random);
  void calm_down();
  std::vector<Report> reports();
  std::vector<std::string> complaints_now();

  const std::string domain_;
  Random plans_;   // what victims do, and when they are to be killed: the seed alone decides
  Random random_;  // drawn from in an order that the machine decides
  Activity activity_{"who kills"};
  std::unique_ptr<Survivors> near_;
  std::unique_ptr<FarSurvivors> far_;
  std::unique_ptr<LeaseProbe> probe_;
  std::vector<std::pair<Clock::time_point, Child>> orphaned_;
  std::vector<Report> before_, after_;
  std::vector<std::string> wrong_;
  Figures figures_;
};

}  // namespace tensorbus::kills
