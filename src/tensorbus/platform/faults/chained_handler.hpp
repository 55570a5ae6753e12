#pragma once

#include <atomic>
#include <csignal>

namespace tensorbus::platform {

// A signal handler in front of the handler that was installed before. Signals that are not for us
// are passed on to it. It stays until the process ends, in forked children too. A handler that the
// application installs later comes before ours: we get a signal only if it passes the signal on,
// with the address.
class ChainedHandler {
 public:
  constexpr explicit ChainedHandler(int signal) noexcept : signal_(signal) {}

  // Called under a lock of the caller's; the first time before any thread can call pass_on(). Does
  // nothing if `ours` is the first handler of the signal already.
  void install(void (*ours)(int, siginfo_t*, void*)) noexcept;

  // Calls the previous handler; runs in the signal handler. Neither this nor its callers may be
  // noexcept: the previous handler may leave by longjmp or an exception.
  void pass_on(siginfo_t* info, void* context);

 private:
  void restore_default() const noexcept;

  const int signal_;
  struct sigaction previous_{};  // written before our handler is installed, then only read
  // Our handler may come twice in the chain: then the previous handler passes the signal to us.
  void (*ours_)(int, siginfo_t*, void*) = nullptr;
  bool twice_ = false;
  std::atomic<bool> passing_{false};
};

}  // namespace tensorbus::platform
