#include "tensorbus/bus/stale_files.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr int kLooks = 10;            // the last about 5 s after the first
constexpr std::size_t kAtOnce = 128;  // about 2 ms

// On a busy machine it may take long until a process that was killed is gone.
std::chrono::milliseconds until_next(int looks_left) {
  return std::min<std::chrono::milliseconds>(10ms * (1 << (kLooks - looks_left)), 1s);
}

}  // namespace

StaleFiles::StaleFiles(Service& service, const Domain& domain)
    : service_(service),
      domain_(domain),
      clearing_up_(service.add_errand([this] { clear_up(); })) {}

StaleFiles::Suspect& StaleFiles::enter(const Id& participant) {
  Suspect& suspect = suspects_[participant];
  suspect.looks = kLooks;
  service_.ask(clearing_up_);
  return suspect;
}

void StaleFiles::clear_up() {
  std::set<Id> some;
  auto next = suspects_.upper_bound(last_);
  for (; next != suspects_.end() && some.size() < kAtOnce; ++next) some.insert(next->first);
  const bool all = next == suspects_.end();
  last_ = all ? Id() : *some.rbegin();
  std::set<Id> dead;
  try {
    dead = domain_.remove_files_of_dead(some);
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
  }
  int most_looks = 0;
  for (const Id& participant : some) {
    Suspect& suspect = suspects_[participant];
    suspect.refused = false;
    most_looks = std::max(most_looks, --suspect.looks);
    if (dead.contains(participant) || suspect.looks <= 0) suspects_.erase(participant);
  }
  if (!suspects_.empty()) service_.ask(clearing_up_, all ? until_next(most_looks) : 0ms);
}

}  // namespace tensorbus::bus
