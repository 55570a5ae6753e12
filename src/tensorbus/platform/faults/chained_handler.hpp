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
  // Written when our handler is installed, then only read. A thread that is passing a signal on at
  // the moment of a further install() may see a part of both: it is about to end the process.
  struct sigaction previous_{};
  // Since a further install() our handler comes twice in the chain: the previous handler passes the
  // signal to us again. `passing_` is seen by the thread that set it; relaxed is enough.
  void (*ours_)(int, siginfo_t*, void*) = nullptr;
  bool twice_ = false;
  std::atomic<bool> passing_{false};
};

}  // namespace tensorbus::platform
