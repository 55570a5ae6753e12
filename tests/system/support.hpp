#pragma once

// Tests of several processes: a peer is tests/system/peer_process.cpp, told line by line what to
// do.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::testing {

// A process on a domain. Killed, if it still lives, when this goes.
class Peer {
 public:
  // `step` is an order for platform/kill_point.hpp, e.g. "publish.issued:1:kill".
  explicit Peer(const FreshDomain& domain, const std::string& step = "",
                const std::string& name = "peer_process") {
    int commands[2];
    int replies[2];
    if (::pipe2(commands, O_CLOEXEC) < 0 || ::pipe2(replies, O_CLOEXEC) < 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, commands[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, replies[1], STDOUT_FILENO);
    std::string program = TENSORBUS_TEST_BIN_DIR "/" + name;
    std::string path = domain.path();
    std::vector<char*> arguments{program.data(), path.data(), nullptr};
    std::string order = "TENSORBUS_KILL_POINT=" + step;
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; ++variable)
      environment.push_back(*variable);
    if (!step.empty()) environment.push_back(order.data());
    environment.push_back(nullptr);
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(),
                                    environment.data());
    posix_spawn_file_actions_destroy(&actions);
    ::close(commands[0]);
    ::close(replies[1]);
    to_ = commands[1];
    from_ = replies[0];
    EXPECT_EQ(error, 0) << program;
  }
  ~Peer() {
    close_pipes();
    if (pid_ > 0 && !ended_) {
      ::kill(pid_, SIGKILL);
      (void)exit_status();
    }
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const noexcept { return pid_; }

  // Gives a command and returns its reply: "ok ...", another outcome, or "dead".
  std::string ask(const std::string& command) {
    tell(command);
    return reply();
  }
  void tell(const std::string& command) {
    const std::string line = command + "\n";
    [[maybe_unused]] const ssize_t written = ::write(to_, line.data(), line.size());
  }
  std::string reply() {
    std::string line;
    for (char c = 0; c != '\n';) {
      pollfd ready{from_, POLLIN, 0};
      const auto limit = std::chrono::milliseconds(2 * kLong);
      if (::poll(&ready, 1, static_cast<int>(limit.count())) <= 0) return "silent";
      if (::read(from_, &c, 1) != 1) return "dead";
      if (c != '\n') line += c;
    }
    return line;
  }

  void signal(int number) const { ::kill(pid_, number); }
  // Returns when it is stopped. False if it ended instead.
  bool wait_until_stopped() {
    if (ended_ || ::waitpid(pid_, &status_, WUNTRACED) != pid_) return false;
    ended_ = !WIFSTOPPED(status_);
    return !ended_;
  }
  // Returns true once, if it was stopped since the last call. Does not wait.
  bool has_stopped() {
    if (ended_ || ::waitpid(pid_, &status_, WUNTRACED | WNOHANG) != pid_) return false;
    ended_ = !WIFSTOPPED(status_);
    return !ended_;
  }
  void kill_and_wait() {
    signal(SIGKILL);
    (void)exit_status();
  }
  // Waits for its end; as waitpid() says it.
  int exit_status() {
    while (!ended_) ended_ = ::waitpid(pid_, &status_, 0) == pid_;
    return status_;
  }
  bool has_ended() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  void close_pipes() {
    if (to_ >= 0) ::close(std::exchange(to_, -1));
    if (from_ >= 0) ::close(std::exchange(from_, -1));
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

// Writing to a peer that has died is no reason to die.
struct IgnoreBrokenPipes {
  IgnoreBrokenPipes() { ::signal(SIGPIPE, SIG_IGN); }
};
inline const IgnoreBrokenPipes kIgnoreBrokenPipes;

}  // namespace tensorbus::testing
