#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/cores.hpp"
#include "harness/messages.hpp"

namespace bench {

// A directory for a domain that nobody else uses.
class OwnDomain {
 public:
  OwnDomain() {
    if (::mkdtemp(path_.data()) == nullptr) die("mkdtemp");
  }
  ~OwnDomain() { std::filesystem::remove_all(path_); }
  OwnDomain(const OwnDomain&) = delete;
  OwnDomain& operator=(const OwnDomain&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_ = "/tmp/tensorbus-bench-XXXXXX";
};

// Processes that are forked from one which has no thread; they die with it.
class Processes {
 public:
  // Does `work` in a new process on a core, and ends it.
  template <typename Work>
  void start(int core, Work work) {
    const pid_t child = ::fork();
    if (child < 0) die("fork");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      pin_to(core);
      work();
      ::_exit(0);
    }
    children_.push_back(child);
  }

  // Until all have ended, and well.
  void join() {
    for (const pid_t child : children_) {
      int status = 0;
      ::waitpid(child, &status, 0);
      require(status == 0, "a process failed");
    }
    children_.clear();
  }

 private:
  std::vector<pid_t> children_;
};

}  // namespace bench
