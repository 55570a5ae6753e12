#pragma once

#include <csignal>

namespace tensorbus::platform {

// A signal handler in front of the handler that was installed before. Signals that are not for us
// are passed on to it. It stays until the process ends, in forked children too. A handler that the
// application installs later comes before ours: we get a signal only if it passes the signal on,
// with the address.
class ChainedHandler {
 public:
  constexpr explicit ChainedHandler(int signal) noexcept : signal_(signal) {}

  // Called once, under a lock of the caller's, before any thread can call pass_on().
  void install(void (*ours)(int, siginfo_t*, void*)) noexcept;

  // Calls the previous handler; runs in the signal handler. Neither this nor its callers may be
  // noexcept: the previous handler may leave by longjmp or an exception.
  void pass_on(siginfo_t* info, void* context) const;

 private:
  void restore_default() const noexcept;

  const int signal_;
  struct sigaction previous_{};  // written once, before our handler is installed, then only read
};

}  // namespace tensorbus::platform
