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

// A place where a thread of a scenario uses a memory order: a line of the code, and its operation.
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

// A site with a weaker order: `order` replaces its own. A relaxed fence is no fence.
struct Weaker {
  Site site;
  std::memory_order order = std::memory_order_relaxed;
  std::memory_order failure = std::memory_order_relaxed;

  std::string text() const;
};

// Returns all ways to weaken a site by one step.
std::vector<Weaker> weaker(const Site& site);

// The programs of several threads, which use the code under test. A scenario is run many times from
// the beginning, so begin() makes all its state new.
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual std::size_t threads() const = 0;
  // Makes all objects, at the same addresses each time.
  virtual void begin() = 0;
  // The program of one thread. It must be deterministic: it does the same if it reads the same
  // values.
  virtual void run(std::size_t thread) = 0;
  // Returns the same address for all mappings of a location.
  virtual const void* canonical(const void* location) const { return location; }
  // Called when no thread can continue. Returns the error that it finds, or "". `asleep`: a thread
  // sleeps.
  virtual std::string end(bool asleep) = 0;
};

// Visits every state that the threads of a scenario can reach, with every value that each of their
// reads may return.
class Explorer {
 public:
  // The values that each location may hold, from another exploration of the same scenario.
  using Values = std::map<const void*, std::set<std::uint64_t>>;

  // `later`: the values that late loads may return. If it is empty, no load is late.
  explicit Explorer(Scenario& scenario, const Values& later = {},
                    std::optional<Weaker> planted = std::nullopt);
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  // Returns the first error, or "".
  std::string explore();
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }
  const std::set<Site>& sites() const { return sites_; }
  // Returns the values that were written to each location.
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

  // The thread that runs now. It has its own context, which is abandoned at each operation.
  std::vector<std::byte> stack_;
  ucontext_t here_{};
  ucontext_t there_{};
  std::size_t thread_ = 0;
  Machine* machine_ = nullptr;
  std::size_t repeated_ = 0;  // number of its results that were repeated
  Operation next_;
  std::source_location where_;
  Stopped stopped_ = Stopped::kAtTheEnd;
};

}  // namespace tensorbus::model
