#pragma once

#include <atomic>
#include <csignal>

namespace tensorbus::platform {

// A signal handler in front of the previously installed handler. It passes on all signals that it
// does not handle. It stays until the process ends, in forked children too. A handler that the
// application installs later comes before ours: ours runs only if that handler passes the signal
// on, with the address.
class ChainedHandler {
 public:
  constexpr explicit ChainedHandler(int signal) noexcept : signal_(signal) {}

  // Called with a lock of the caller held, and the first time before any thread can call pass_on().
  // Does nothing if `ours` is already the first handler of the signal.
  void install(void (*ours)(int, siginfo_t*, void*)) noexcept;

  // Calls the previous handler; runs in the signal handler. Neither this nor its callers may be
  // noexcept: the previous handler may leave by longjmp or an exception.
  void pass_on(siginfo_t* info, void* context);

 private:
  void restore_default() const noexcept;

  const int signal_;
  // Written when our handler is installed, then only read. A thread that passes a signal on during
  // a further install() may read a mix of both values; its process is about to end.
  struct sigaction previous_{};
  // After a further install(), our handler is in the chain twice: the previous handler passes the
  // signal to us again. Relaxed is enough for `passing_`: the thread that set it reads it.
  void (*ours_)(int, siginfo_t*, void*) = nullptr;
  bool twice_ = false;
  std::atomic<bool> passing_{false};
};

}  // namespace tensorbus::platform
