#include "tensorbus/bus/domain/stale_files.hpp"

#include <algorithm>
#include <set>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr int kLooks = 10;            // the last is about 5 s after the first
constexpr std::size_t kAtOnce = 128;  // takes about 2 ms

// Returns the time until the next check. On a busy machine, a killed process may take long to end.
std::chrono::milliseconds until_next(int looks_left) {
  return std::min<std::chrono::milliseconds>(10ms * (1 << (kLooks - looks_left)), 1s);
}

}  // namespace

StaleFiles::StaleFiles(EventLoop& loop, const Domain& domain)
    : loop_(loop), domain_(domain), clearing_up_(loop.add_task([this] { clear_up(); })) {}

StaleFiles::Suspect& StaleFiles::enter(const Id& participant) {
  Suspect& suspect = suspects_[participant];
  suspect.looks = kLooks;
  suspect.next = Clock::now();
  loop_.schedule(clearing_up_);
  return suspect;
}

void StaleFiles::clear_up() {
  const auto now = Clock::now();
  std::set<Id> due;
  for (const auto& [participant, suspect] : suspects_)
    if (suspect.next <= now && due.size() < kAtOnce) due.insert(participant);
  std::set<Id> dead;
  try {
    if (!due.empty()) dead = domain_.remove_files_of_dead(due);
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
  }
  for (const Id& participant : due) {
    Suspect& suspect = suspects_[participant];
    suspect.refused = false;
    suspect.next = now + until_next(--suspect.looks);
    if (dead.contains(participant) || suspect.looks <= 0) suspects_.erase(participant);
  }
  auto next = Clock::time_point::max();
  for (const auto& [participant, suspect] : suspects_) next = std::min(next, suspect.next);
  if (suspects_.empty()) return;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  loop_.schedule(clearing_up_, std::max(rest, 0ms));
}

}  // namespace tensorbus::bus
