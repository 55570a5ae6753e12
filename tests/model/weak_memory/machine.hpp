#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

// A machine with the memory of C++20 (release, acquire, relaxed and sequentially consistent
// accesses and fences), as an operational semantics with views: J. Kang, C.-K. Hur, O. Lahav,
// V. Vafeiadis, D. Dreyer, "A promising semantics for relaxed-memory concurrency", POPL 2017,
// without promises, and with the fences and the total order S of C++20 [atomics.order]. Each
// location keeps its history of writes. A read may return any of them that is not older than what
// its thread knows; what a thread knows is a view: a place in the history of each location. A
// release passes the view on, an acquire takes it over.
//
// A relaxed load may also be overtaken by later accesses of its own thread ("load buffering", which
// arm64 allows): it returns a value that another thread has yet to write, and the thread goes on to
// its next release, fence, or access of the same location; there it waits until the value has been
// written. One load of a thread at a time is late.
namespace tensorbus::model {

inline constexpr std::size_t kMaxLocations = 40;
inline constexpr std::size_t kMaxThreads = 4;

// Of each location, the place in its history before which nothing is read any more; of each thread,
// how many of its steps happened before.
struct View {
  std::array<std::uint8_t, kMaxLocations> places{};
  std::array<std::uint8_t, kMaxThreads> steps{};

  void join(const View& other);
  void join_places(const View& other);
  bool is_within(const View& other) const;
  bool operator==(const View&) const = default;
};

struct Message {
  std::uint64_t value = 0;
  View view;             // what an acquire learns
  bool follows = false;  // an exchange read the message before it: nothing can come between
};

enum class Kind : std::uint8_t { kLoad, kStore, kExchange, kAdd, kCompare, kFence, kWait, kWake };

// One atomic access, or a fence, or a call of futex().
struct Operation {
  Kind kind = Kind::kFence;
  const void* at = nullptr;
  std::uint64_t initial = 0;  // of the location
  std::memory_order order = std::memory_order_relaxed;
  std::memory_order failure = std::memory_order_relaxed;  // of a comparison
  std::uint64_t value = 0;                                // stored, added; awaited by a wait
  std::uint64_t expected = 0;                             // by a comparison
};

// A load that has returned a value, which nobody had written by then.
struct Late {
  std::uint8_t location = 0;
  std::uint8_t from = 0;  // the first place at which it may be written
  bool waits = false;     // there is one
  std::uint64_t value = 0;
};

enum class Status : std::uint8_t { kRuns, kSleeps, kOver };

struct Thread {
  View now;                            // what it knows
  View acquired;                       // what it knows after its next acquire fence
  View released;                       // what it knew at its last release fence
  std::vector<std::uint64_t> results;  // of its operations, and of its reads of Plain objects
  Late late;
  Status status = Status::kRuns;
  std::uint8_t sleeps_at = 0;  // a location
};

// Who has read and written an object that is not atomic, and at which of his steps: the last ones.
struct PlainAccesses {
  std::array<std::uint8_t, kMaxThreads> read{};
  std::array<std::uint8_t, kMaxThreads> written{};
  std::uint64_t value = 0;
};

// The state of all threads and their memory.
struct Machine {
  std::vector<std::vector<Message>> histories;  // by location
  std::vector<PlainAccesses> plain;             // by object
  std::vector<Thread> threads;
  View consistent;  // of the sequentially consistent accesses and fences so far

  // All states after one operation, each with its result at the end of the thread's results.
  // `later`: what a late load may return.
  std::vector<Machine> after(std::size_t thread, const Operation& operation, std::size_t location,
                             const std::set<std::uint64_t>& later) const;
  // All states in which the late load of this thread has been done.
  std::vector<Machine> after_late_load(std::size_t thread) const;
  bool has_late_loads() const;
  // Returns false if another thread's access of this object does not happen before this one.
  [[nodiscard]] bool access_plain(std::size_t thread, std::size_t object, bool writes);
  // Drops messages that no thread can read any more: states that differ in them are the same.
  void forget();
  std::string bytes() const;

 private:
  template <typename Change>
  void for_each_view(Change change);
  void load(std::vector<Machine>& all, std::size_t thread, std::size_t location,
            std::memory_order order, const std::uint64_t* unless) const;
  bool tells_more(std::size_t location, std::size_t place, std::size_t first) const;
  void load_late(std::vector<Machine>& all, std::size_t thread, std::size_t location,
                 std::memory_order order, const std::uint64_t* unless,
                 const std::set<std::uint64_t>& later) const;
  void store(std::vector<Machine>& all, std::size_t thread, std::size_t location,
             const Operation& operation) const;
  void exchange(std::vector<Machine>& all, std::size_t thread, std::size_t location,
                const Operation& operation) const;
  void fence(std::size_t thread, std::memory_order order);
  void see(std::size_t thread, std::size_t location, std::size_t place, std::memory_order order);
  std::size_t oldest(std::size_t thread, std::size_t location, std::memory_order order) const;
  void insert(std::size_t location, std::size_t place, Message message);
};

bool acquires(std::memory_order order);
bool releases(std::memory_order order);

}  // namespace tensorbus::model
