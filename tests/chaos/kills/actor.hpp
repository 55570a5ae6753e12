#pragma once

// The threads of the storm. Each says what it is doing; when one does the same for too long, the
// watchdog tells what everybody does and ends the process.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace tensorbus::kills {

// What one thread is doing. `what` is a literal.
class Activity {
 public:
  explicit Activity(std::string who);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  void does(const char* what) noexcept;

 private:
  friend class Watchdog;
  const std::string who_;
  std::atomic<const char*> what_{"starting"};
  std::atomic<std::int64_t> since_ns_{0};
};

// One in a process, before all activities.
class Watchdog {
 public:
  Watchdog(std::string process, std::chrono::seconds patience);
  ~Watchdog();

 private:
  void look() const;

  const std::string process_;
  const std::chrono::seconds patience_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Storm or calm; a number for each calm.
struct Weather {
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> calm{0};  // 0 in the storm
};

// A thread that plays its part round by round, and is told the number of the calm. A round that
// began in a calm leaves nothing behind that a calm should not find.
class Actor {
 public:
  using Round = std::function<void(Activity&, std::uint64_t calm)>;
  Actor(std::string who, const Weather& weather, Round round);
  ~Actor() { thread_.join(); }

  // Has a round been played that began in this calm?
  bool is_calm(std::uint64_t calm) const noexcept {
    return calm_.load(std::memory_order_acquire) == calm;
  }

 private:
  const Weather& weather_;
  const Round round_;
  Activity activity_;
  std::atomic<std::uint64_t> calm_{0};
  std::thread thread_;
};

}  // namespace tensorbus::kills
