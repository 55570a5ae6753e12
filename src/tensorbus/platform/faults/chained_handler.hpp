#pragma once

#include <csignal>

namespace tensorbus::platform {

// A signal handler of ours in front of the one that was found: what we do not settle ourselves is
// passed on to it. Stays for ever, in forked children too. One that the application installs later
// comes before ours: if it does not pass a signal on as it came, with its address, we hear nothing.
class ChainedHandler {
 public:
  constexpr explicit ChainedHandler(int signal) noexcept : signal_(signal) {}

  // Once, before anybody can call pass_on; under a lock of the caller's.
  void install(void (*ours)(int, siginfo_t*, void*)) noexcept;

  // In the handler. Not noexcept, nor may be what calls it: the previous handler leaves as it
  // likes, by longjmp or an exception.
  void pass_on(siginfo_t* info, void* context) const;

 private:
  void restore_default() const noexcept;

  const int signal_;
  struct sigaction previous_{};  // written once, before our handler is installed, then only read
};

}  // namespace tensorbus::platform
