#pragma once

// What tests of the bus share: a domain of their own, tensors that can tell whether they are whole,
// and a deadline that only a failure reaches.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::testing {

using namespace std::chrono_literals;

inline constexpr std::chrono::seconds kLong{30};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// For what has no event to wait on. False if it does not come true in a very long time.
template <typename Holds>
[[nodiscard]] bool eventually(Holds holds) {
  for (const platform::Deadline deadline(kLong); !deadline.passed();) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return holds();
}

// The code of the Error that `call` throws; nothing if it throws none.
template <typename Call>
std::optional<Code> code_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

// A directory of this test alone, removed with all that is in it.
class FreshDirectory {
 public:
  FreshDirectory() {
    std::string path = "/tmp/tensorbus-test-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  ~FreshDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FreshDirectory(const FreshDirectory&) = delete;
  FreshDirectory& operator=(const FreshDirectory&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.insert(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

// A domain of this test alone.
class FreshDomain : public FreshDirectory {
 public:
  bus::ParticipantRef join(ParticipantOptions options = {}) const {
    options.domain = path();
    return bus::make_participant(options);
  }
};

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// The lowest number that has no descriptor.
inline std::size_t first_free_descriptor() {
  const int fd = ::dup(STDERR_FILENO);
  ::close(fd);
  return static_cast<std::size_t>(fd);
}

// The address space of this process that is in use.
inline std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Tensors whose every word follows from the first: a torn one shows.
inline std::uint64_t word_after(std::uint64_t seed, std::size_t i) {
  return i == 0 ? seed : (seed + i) * 0x9e3779b97f4a7c15ULL;
}
inline void write_pattern(std::span<std::uint64_t> words, std::uint64_t seed) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_after(seed, i);
}
// The seed, or nothing if the words are not a pattern.
inline std::optional<std::uint64_t> seed_of(std::span<const std::uint64_t> words) {
  if (words.empty()) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != word_after(words[0], i)) return std::nullopt;
  return words[0];
}
inline std::optional<std::uint64_t> seed_of(const bus::Sample& sample) {
  return seed_of(sample.tensor().as<std::uint64_t>());
}

inline bus::Loan pattern_loan(bus::Publisher& publisher, std::uint64_t seed,
                              std::size_t words = 64) {
  bus::Loan loan = publisher.loan<std::uint64_t>({static_cast<std::int64_t>(words)});
  write_pattern(loan.as<std::uint64_t>(), seed);
  return loan;
}
inline Published publish_pattern(bus::Publisher& publisher, std::uint64_t seed,
                                 std::size_t words = 64) {
  return publisher.publish(pattern_loan(publisher, seed, words));
}
inline void publish_patterns(bus::Publisher& publisher, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    ASSERT_EQ(publish_pattern(publisher, seed).outcome, Outcome::kDone);
}

// The seeds of all samples that are there now; nothing for a torn one.
using Seeds = std::vector<std::optional<std::uint64_t>>;
inline Seeds seeds_now(bus::Subscriber& subscriber) {
  Seeds seeds;
  while (const auto sample = subscriber.try_receive()) seeds.push_back(seed_of(*sample));
  return seeds;
}
inline Seeds next_seeds(bus::Subscriber& subscriber, std::size_t count) {
  Seeds seeds;
  while (seeds.size() < count) {
    const auto sample = subscriber.receive(kLong);
    if (!sample) break;
    seeds.push_back(seed_of(*sample));
  }
  return seeds;
}
inline Seeds seeds_from(std::uint64_t first, std::uint64_t count) {
  Seeds seeds;
  for (std::uint64_t seed = first; seed < first + count; ++seed) seeds.emplace_back(seed);
  return seeds;
}

// Memory of samples and loans in use, after taking back what subscribers returned.
inline std::size_t used_bytes(const bus::ParticipantRef& participant,
                              const std::vector<bus::Publisher*>& publishers) {
  for (bus::Publisher* publisher : publishers) (void)publisher->stats();
  return participant->memory_use().used_bytes;
}

}  // namespace tensorbus::testing
