#include "actor.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::kills {
namespace {

std::mutex everybody_mutex;
std::set<const Activity*> everybody;

std::int64_t now_ns() { return platform::Clock::now().time_since_epoch().count(); }

}  // namespace

Activity::Activity(std::string who) : who_(std::move(who)), since_ns_(now_ns()) {
  const std::lock_guard lock(everybody_mutex);
  everybody.insert(this);
}
Activity::~Activity() {
  const std::lock_guard lock(everybody_mutex);
  everybody.erase(this);
}
// Relaxed: read for people, who see how old it is.
void Activity::does(const char* what) noexcept {
  what_.store(what, std::memory_order_relaxed);
  since_ns_.store(now_ns(), std::memory_order_relaxed);
}

Watchdog::Watchdog(std::string process, std::chrono::seconds patience)
    : process_(std::move(process)), patience_(patience), thread_([this] {
        while (!over_.load(std::memory_order_relaxed)) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          look();
        }
      }) {}
Watchdog::~Watchdog() {
  over_.store(true, std::memory_order_relaxed);
  thread_.join();
}

void Watchdog::look() const {
  const std::lock_guard lock(everybody_mutex);
  const std::int64_t now = now_ns();
  const auto patience = std::chrono::nanoseconds(patience_).count();
  bool stuck = false;
  for (const Activity* one : everybody) stuck |= now - one->since_ns_ > patience;
  if (!stuck) return;
  std::fprintf(stderr, "hang: somebody in the %s process (%d) does the same for %lld s\n",
               process_.c_str(), static_cast<int>(::getpid()),
               static_cast<long long>(patience_.count()));
  for (const Activity* one : everybody)
    std::fprintf(stderr, "  %-24s %s, for %.1f s\n", one->who_.c_str(), one->what_.load(),
                 static_cast<double>(now - one->since_ns_) / 1e9);
  if (const char* command = std::getenv("TENSORBUS_ON_HANG"))  // "gdb -p ... -batch", say
    if (std::system(command) != 0) std::fprintf(stderr, "%s failed\n", command);
  std::abort();
}

Actor::Actor(std::string who, const Weather& weather, Round round)
    : weather_(weather), round_(std::move(round)), activity_(std::move(who)), thread_([this] {
        while (!weather_.over.load(std::memory_order_acquire)) {
          const std::uint64_t calm = weather_.calm.load(std::memory_order_acquire);
          round_(activity_, calm);
          calm_.store(calm, std::memory_order_release);
        }
      }) {}

}  // namespace tensorbus::kills
