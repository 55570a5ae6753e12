#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

// A machine with the memory of C++20 (release, acquire, relaxed and sequentially consistent
// accesses and fences), as an operational semantics with views: J. Kang, C.-K. Hur, O. Lahav, V.
// Vafeiadis, D. Dreyer, "A promising semantics for relaxed-memory concurrency", POPL 2017, without
// promises, and with the fences and the total order S of C++20 [atomics.order]. Each location keeps
// its history of writes. A thread has a view: a place in the history of each location. A read may
// return any write that is not older than this place. A release passes the view on, and an acquire
// takes it over.
//
// Later accesses of the same thread may also overtake a relaxed load ("load buffering", which arm64
// allows). This late load returns a value that another thread has not written yet. The thread
// continues to its next release, fence, call of futex(), or access of the same location, and waits
// there until the value has been written. A thread has at most one late load at a time.
namespace tensorbus::model {

inline constexpr std::size_t kMaxLocations = 40;
inline constexpr std::size_t kMaxThreads = 4;

// For each location, the oldest place in its history that may still be read. For each thread, the
// number of its steps that happened before.
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
  View view;             // an acquire takes it over
  bool follows = false;  // an exchange read the previous message: no other may come between
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

// A load that has returned a value before any thread has written it.
struct Late {
  std::uint8_t location = 0;
  std::uint8_t from = 0;  // the first place at which the value may be written
  bool waits = false;     // there is a late load
  std::uint64_t value = 0;
};

enum class Status : std::uint8_t { kRuns, kSleeps, kOver };

struct Thread {
  View now;                            // its current view
  View acquired;                       // its view after its next acquire fence
  View released;                       // its view at its last release fence
  std::vector<std::uint64_t> results;  // of its operations, and of its reads of Plain objects
  Late late;
  Status status = Status::kRuns;
  std::uint8_t sleeps_at = 0;  // a location
};

// The last accesses of an object that is not atomic. `read` and `written`: by thread, the step of
// its last access.
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

  // Returns all states after one operation. The result of the operation is the last of the thread's
  // results. `later`: the values that a late load may return.
  std::vector<Machine> after(std::size_t thread, const Operation& operation, std::size_t location,
                             const std::set<std::uint64_t>& later) const;
  // Returns all states in which the late load of this thread is done.
  std::vector<Machine> after_late_load(std::size_t thread) const;
  bool has_late_loads() const;
  // Returns false if another thread's access of this object does not happen before this one.
  [[nodiscard]] bool access_plain(std::size_t thread, std::size_t object, bool writes);
  // Drops messages that no thread can read any more, so that states that differ only in these
  // messages are equal.
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
