#pragma once

#include <signal.h>

#include <initializer_list>

namespace tensorbus::platform {

// While one exists, its thread takes no signals. Threads that it starts inherit the mask: signals
// are for the program's own threads. Fault signals stay unblocked: the handler of a mapped file
// that was cut short (FileGuard) runs in the thread that accesses it, and the kernel ends the
// process if the signal is blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS})
      ::sigdelset(&blocked, fault);
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tensorbus::platform
