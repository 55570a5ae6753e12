#include "storm.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::kills {
namespace {

constexpr std::size_t kAlive = 6;
constexpr std::uint64_t kOneInMeasured = 15;
constexpr std::chrono::seconds kCalmAgain{2};
constexpr std::chrono::seconds kCalmWithin{testing::kSanitized ? 60 : 20};

std::set<std::string> files_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename());
  return names;
}

}  // namespace

FarSurvivors::FarSurvivors(const std::string& domain, std::uint64_t seed)
    : child_({"survivors", domain, std::to_string(seed)}, {.input = true, .output = true}) {}
FarSurvivors::~FarSurvivors() = default;

Report FarSurvivors::ask(const std::string& what) {
  const std::string line = what + "\n";
  [[maybe_unused]] const auto written = ::write(child_.input(), line.data(), line.size());
  std::string reply;
  while (!reply.ends_with("end\n")) {
    char bytes[4096];
    const auto count = ::read(child_.output(), bytes, sizeof bytes);
    if (count == 0) throw std::runtime_error("the other process of survivors has ended");
    if (count > 0) reply.append(bytes, static_cast<std::size_t>(count));
  }
  std::istringstream in(reply);
  return Report::read(in);
}

int FarSurvivors::leave() {
  (void)ask("leave");
  return child_.reap();
}

int be_far_survivors(const std::string& domain, std::uint64_t seed) {
  Survivors survivors(domain, seed, 2);
  survivors.wait_for_all();
  for (std::string command; std::getline(std::cin, command);) {
    if (command == "calm") survivors.calm_down();
    if (command == "storm") survivors.storm();
    (command == "report" ? survivors.report() : Report()).write(std::cout);
    if (command == "leave") return 0;
  }
  return 1;
}

struct Storm::Victim {
  Child child;
  Role role;
  Moment moment;
  Clock::time_point kill_at;
  std::optional<Clock::time_point> stop_at, resume_at;
};

Storm::Storm(const std::string& domain, std::uint64_t seed)
    : domain_(domain), plans_(seed), random_(seed + 1) {
  activity_.does("starting the survivors");
  far_ = std::make_unique<FarSurvivors>(domain, plans_());
  near_ = std::make_unique<Survivors>(domain, plans_(), 2);
  near_->wait_for_all();
  probe_ = std::make_unique<LeaseProbe>(domain, near_->tally());
  // Until two looks in a row are the same.
  const auto start = Clock::now();
  for (auto again = start;; std::this_thread::sleep_for(20ms)) {
    if (Clock::now() >= again) {
      activity_.does("calming down before it begins");
      near_->calm_down();
      far_->calm_down();
      again = Clock::now() + kCalmAgain;
    }
    before_ = reports();
    if ((wrong_ = complaints_now()).empty() || Clock::now() - start > kCalmWithin) return;
  }
}

std::vector<Report> Storm::reports() {
  std::vector<Report> reports{near_->report(), far_->report()};
  probe_->add_to(reports[0]);
  return reports;
}

std::vector<std::string> Storm::complaints_now() {
  (void)bus::make_participant(participant_options(domain_));  // who starts clears up after the dead
  after_ = reports();
  return complaints(before_, after_, files_in(domain_));
}

void Storm::kill(std::uint64_t count) {
  if (!wrong_.empty()) return;
  near_->storm();
  far_->storm();
  batch(count);
  calm_down();
}

// Until nothing is wrong, or for so long that it stays wrong.
void Storm::calm_down() {
  const auto start = Clock::now();
  for (auto again = start;; std::this_thread::sleep_for(10ms)) {
    // The last sample may have been the last of its segment, which a link then keeps mapped until
    // it gets another one.
    if (Clock::now() >= again) {
      activity_.does("calming down");
      near_->calm_down();
      far_->calm_down();
      activity_.does("comparing with what was before");
      again = Clock::now() + kCalmAgain;
    }
    if ((wrong_ = complaints_now()).empty()) break;
    if (Clock::now() - start > kCalmWithin) return;
  }
  figures_.longest_calming = std::max(
      figures_.longest_calming, std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - start));
  ++figures_.calms;
  if (chance(random_, 50)) measure("in a calm", random_);
}

Storm::Victim Storm::start_victim() {
  const auto role = static_cast<Role>(below(plans_, kRoles.size()));
  const auto milliseconds = [&](std::uint64_t from, std::uint64_t to) {
    return std::chrono::microseconds(1000 * from + below(plans_, 1000 * (to - from)));
  };
  Victim victim{
      Child({"victim", domain_, std::to_string(plans_()), std::to_string(static_cast<int>(role))}),
      role,
      Moment::kStarting,
      Clock::now(),
      {},
      {}};
  const auto draw = below(plans_, 100);
  if (draw < 35) {
    victim.kill_at += milliseconds(0, 30);
  } else if (draw < 65) {
    victim.moment = Moment::kEarly;
    victim.kill_at += milliseconds(30, 150);
  } else if (draw < 80) {
    victim.moment = Moment::kLate;
    victim.kill_at += milliseconds(150, 500);
  } else if (draw < 92) {
    victim.stop_at = victim.kill_at + milliseconds(0, 150);
    victim.kill_at = *victim.stop_at + milliseconds(1, 200);
    victim.moment = Moment::kStopped;
    if (draw >= 86) {
      victim.moment = Moment::kResumed;
      victim.resume_at = victim.kill_at;
      victim.kill_at += milliseconds(0, 60);
    }
  } else {
    victim.moment = Moment::kTogether;
    victim.kill_at += milliseconds(5, 200);
  }
  return victim;
}

void Storm::batch(std::uint64_t count) {
  std::vector<Victim> alive;
  for (std::uint64_t started = 0; started < count || !alive.empty();) {
    while (started < count && alive.size() < kAlive) {
      ++started;
      activity_.does("starting a victim");
      if (below(plans_, kOneInMeasured) == 0)
        measure("in the storm", plans_);
      else
        alive.push_back(start_victim());
    }
    activity_.does("killing");
    act_on(alive);
    end_orphans(false);
    std::this_thread::sleep_for(200us);
  }
  end_orphans(true);
}

// Stops, resumes and kills those whose time has come.
void Storm::act_on(std::vector<Victim>& alive) {
  const auto now = Clock::now();
  const auto due = [&](std::optional<Clock::time_point>& at) {
    if (!at || *at > now) return false;
    at.reset();
    return true;
  };
  bool all = false;
  for (Victim& victim : alive) {
    if (due(victim.stop_at)) victim.child.signal(SIGSTOP);
    if (due(victim.resume_at)) victim.child.signal(SIGCONT);
    all |= victim.moment == Moment::kTogether && victim.kill_at <= now;
  }
  const auto dead = std::stable_partition(alive.begin(), alive.end(), [&](const Victim& victim) {
    return !all && victim.kill_at > now;
  });
  std::vector<Victim> buried(std::make_move_iterator(dead), std::make_move_iterator(alive.end()));
  alive.erase(dead, alive.end());
  if (all)
    for (Victim& victim : buried) victim.moment = Moment::kTogether;
  bury(std::move(buried));
}

void Storm::bury(std::vector<Victim> dead) {
  for (const Victim& victim : dead) victim.child.signal(SIGKILL);
  for (Victim& victim : dead) {
    activity_.does("waiting for the end of a victim");
    const int status = victim.child.reap();
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
      near_->tally().complain("a victim ended by itself, status " + std::to_string(status));
    ++figures_.by_moment[kMoments[static_cast<std::size_t>(victim.moment)]];
    ++figures_.by_role[kRoles[static_cast<std::size_t>(victim.role)]];
    orphaned_.emplace_back(Clock::now() + std::chrono::milliseconds(below(random_, 300)),
                           std::move(victim.child));
  }
}

void Storm::end_orphans(bool all) {
  std::erase_if(orphaned_, [&](auto& orphaned) {
    if (!all && orphaned.first > Clock::now()) return false;
    figures_.orphans += static_cast<std::uint64_t>(orphaned.second.end_orphans());
    return true;
  });
}

void Storm::measure(const std::string& in, Random& random) {
  struct Kind {
    Role role;
    const char* name;
  };
  constexpr std::array kinds{Kind{Role::kSubscriber, "no child"}, Kind{Role::kForks, "forked"},
                             Kind{Role::kClones, "cloned"}};
  const Kind& kind = kinds[below(random, kinds.size())];
  const auto pause = std::chrono::microseconds(below(random, 5000));
  probe_->kill_one(activity_, kind.role, pause, figures_.lease_times[in + ", " + kind.name]);
  ++figures_.by_moment[kMoments[static_cast<std::size_t>(Moment::kMeasured)]];
  ++figures_.by_role[kRoles[static_cast<std::size_t>(kind.role)]];
}

void Storm::end() {
  (void)bus::make_participant(
      participant_options(domain_));  // clears up after who was measured last
  activity_.does("waiting for the other survivors to leave");
  if (const int status = far_->leave(); status != 0)
    wrong_.push_back("the other survivors ended with status " + std::to_string(status));
  activity_.does("leaving");
  far_.reset();
  near_.reset();
  probe_.reset();
}

}  // namespace tensorbus::kills
