#pragma once

#include <signal.h>

#include <chrono>
#include <vector>

namespace tensorbus::cli {

// SIGINT, SIGTERM, SIGHUP unless it was ignored, and more, for a command that ends in order. They
// are blocked while this object exists, in this thread and in threads that start meanwhile.
class CaughtSignals {
 public:
  // Throws Error(kSystem) if no descriptor is left.
  explicit CaughtSignals(const std::vector<int>& more);
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  ~CaughtSignals();  // signals that nobody has asked for are dropped

  // Returns the number of a signal, or 0 after the timeout. With `descriptor`, which may be -1,
  // returns 0 also when it can be read, or has an error.
  int next(std::chrono::steady_clock::duration timeout, int descriptor = -1) const;

 private:
  sigset_t all_{};
  sigset_t before_{};
  int signals_;
};

// Whether `handler` is the action of the signal now.
bool has_action(int number, void (*handler)(int));

}  // namespace tensorbus::cli
