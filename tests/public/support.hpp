#pragma once

// What tests of the public C++ API share: a domain of their own, other processes, and a deadline
// that only a failure reaches. Nothing of the inside is included here.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tensorbus/tensorbus.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace tensorbus::testing {

using namespace std::chrono_literals;

inline constexpr std::chrono::seconds kLong{30};

// For what has no event to wait on. False if it does not come true in a very long time.
template <typename Holds>
[[nodiscard]] bool eventually(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
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

// A domain of this test alone, which goes with it.
class FreshDomain {
 public:
  FreshDomain() {
    std::string path = "/tmp/tensorbus-test-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  FreshDomain(const FreshDomain&) = delete;
  FreshDomain& operator=(const FreshDomain&) = delete;
  ~FreshDomain() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const noexcept { return path_; }
  Participant join(ParticipantOptions options = {}) const {
    options.domain = path_;
    return Participant(options);
  }

 private:
  std::string path_;
};

// What this program can be started as instead of its tests, by name; returns the exit status.
using Role = std::function<int(const std::vector<std::string>& arguments)>;
inline std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> all;
  return all;
}
inline bool add_role(const std::string& name, Role role) {
  return roles().emplace(name, std::move(role)).second;
}
inline constexpr char kRoleOption[] = "--role";

// This program again, in another role. Killed if nobody waited for it.
class Process {
 public:
  explicit Process(const std::string& role, std::vector<std::string> arguments = {},
                   const std::map<std::string, std::string>& environment = {}) {
    arguments.insert(arguments.begin(), {"public_tests", kRoleOption, role});
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execv("/proc/self/exe", pointers.data());
    ::_exit(127);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) kill();
  }

  // Its exit status; -1 if a signal ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Nothing once it was waited for.
  void signal(int number) const {
    if (pid_ > 0) ::kill(pid_, number);
  }
  void kill() {
    signal(SIGKILL);
    (void)wait();
  }

 private:
  pid_t pid_ = -1;
};

// A role's own checks: its exit status says which line did not hold.
#define REQUIRE_IN_ROLE(...)                                                         \
  do {                                                                               \
    if (!(__VA_ARGS__)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
      return 1;                                                                      \
    }                                                                                \
  } while (false)

// `count` floats: first, first + 1, and so on.
inline void fill(std::span<float> values, float first) {
  for (float& value : values) value = first++;
}
inline bool is_filled(std::span<const float> values, float first) {
  for (const float value : values)
    if (value != first++) return false;
  return !values.empty();
}

inline Loan filled_loan(Publisher& publisher, float first, std::int64_t count = 1000) {
  Loan loan = publisher.loan<float>({count});
  fill(loan.as<float>(), first);
  return loan;
}

}  // namespace tensorbus::testing
