#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tests/model/weak_memory/machine.hpp"

namespace tensorbus::model {

// Where a thread of a scenario uses an order: a line of the code, and what is done there.
struct Site {
  std::size_t thread = 0;
  std::string file;
  std::uint32_t line = 0;
  Kind kind = Kind::kFence;
  std::memory_order order = std::memory_order_relaxed;
  std::memory_order failure = std::memory_order_relaxed;

  auto operator<=>(const Site&) const = default;
  std::string text() const;
};

// A site whose order is a weaker one: `order` in place of its own. An order of a fence that is
// relaxed is no fence.
struct Weaker {
  Site site;
  std::memory_order order = std::memory_order_relaxed;
  std::memory_order failure = std::memory_order_relaxed;

  std::string text() const;
};

// All ways to weaken a site by one step.
std::vector<Weaker> weaker(const Site& site);

// Programs of some threads, which use the code under test. It is run again and again from the
// beginning, so all it knows is made new by begin().
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual std::size_t threads() const = 0;
  // Makes all objects, at the same addresses each time.
  virtual void begin() = 0;
  // The program of one thread. It takes the same way, if the same values are read.
  virtual void run(std::size_t thread) = 0;
  // Of a location that is mapped more than once: the same address for all.
  virtual const void* canonical(const void* location) const { return location; }
  // When no thread can go on. Returns what is wrong, or "". `asleep`: some thread sleeps.
  virtual std::string end(bool asleep) = 0;
};

// Visits every state that the threads of a scenario can reach, with every value that each of their
// reads may return.
class Explorer {
 public:
  // What each location may hold: of another exploration of the same scenario.
  using Values = std::map<const void*, std::set<std::uint64_t>>;

  // Loads are late only if it is known what they may return: `later`.
  explicit Explorer(Scenario& scenario, const Values& later = {},
                    std::optional<Weaker> planted = std::nullopt);
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  // Returns the first thing that is wrong, or "".
  std::string explore();
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }
  const std::set<Site>& sites() const { return sites_; }
  // What was written to each location.
  const Values& written() const { return written_; }

  // Called by the code under test.
  std::uint64_t perform(const Operation& operation, std::source_location where);
  void write_plain(const void* object, std::uint64_t value);
  std::uint64_t read_plain(const void* object);
  [[noreturn]] void fail(const char* what);
  static Explorer* current() { return current_; }

 private:
  struct Hash {
    std::size_t operator()(const std::array<std::uint64_t, 2>& key) const {
      return static_cast<std::size_t>(key[0]);
    }
  };
  enum class Stopped { kAtOperation, kAtTheEnd, kFailed, kWaits };

  Stopped run(std::size_t thread, Machine& machine, bool anew = true);
  static void begin_thread();
  [[noreturn]] void leave_thread(Stopped why);
  std::optional<std::uint64_t> repeat();
  void enter(Machine machine);
  void note_written(const std::vector<Message>& history);
  bool step(std::size_t thread, const Machine& from);
  void at_rest(Machine machine);
  std::size_t location_of(const Operation& operation, Machine& machine);
  void wait_for_late_load();
  PlainAccesses* access(const void* object, bool writes);
  void plant(std::size_t thread);

  static Explorer* current_;
  Scenario& scenario_;
  const Values later_;
  const std::optional<Weaker> planted_;
  Values written_;
  std::map<const void*, std::size_t> locations_;
  std::vector<std::uint64_t> initial_;  // of each location
  std::map<const void*, std::size_t> objects_;
  std::set<Site> sites_;
  std::unordered_set<std::array<std::uint64_t, 2>, Hash> seen_;
  std::vector<Machine> todo_;
  std::size_t ends_ = 0;
  std::string wrong_;

  // The thread that runs now, in a context of its own that is left behind at each operation.
  std::vector<std::byte> stack_;
  ucontext_t here_{};
  ucontext_t there_{};
  std::size_t thread_ = 0;
  Machine* machine_ = nullptr;
  std::size_t repeated_ = 0;  // of its results
  Operation next_;
  std::source_location where_;
  Stopped stopped_ = Stopped::kAtTheEnd;
};

}  // namespace tensorbus::model
