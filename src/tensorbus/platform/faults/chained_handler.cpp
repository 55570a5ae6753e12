#include "tensorbus/platform/faults/chained_handler.hpp"

#include <utility>

namespace tensorbus::platform {

void ChainedHandler::install(void (*ours)(int, siginfo_t*, void*)) noexcept {
  struct sigaction present{};
  if (::sigaction(signal_, nullptr, &present) != 0) return;
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == ours) return;
  twice_ = std::exchange(ours_, ours) != nullptr;
  previous_ = present;
  struct sigaction action{};
  action.sa_sigaction = ours;
  // The previous handler runs inside ours. The signals of its own mask must be blocked, in case it
  // leaves by longjmp or raises the signal again.
  action.sa_mask = previous_.sa_mask;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous_.sa_flags & SA_NODEFER);
  ::sigaction(signal_, &action, nullptr);
}

void ChainedHandler::pass_on(siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;  // by raise() or kill(): no instruction will fault again
  if (previous_.sa_handler == SIG_IGN && sent) return;
  const bool again = twice_ && passing_.exchange(true, std::memory_order_relaxed);
  if (again || previous_.sa_handler == SIG_DFL || previous_.sa_handler == SIG_IGN) {
    // After the return, the faulting instruction runs again, which then ends the process.
    restore_default();
    if (sent) ::raise(signal_);
    return;
  }
  if ((previous_.sa_flags & SA_RESETHAND) != 0) restore_default();
  if ((previous_.sa_flags & SA_SIGINFO) != 0)
    previous_.sa_sigaction(signal_, info, context);
  else
    previous_.sa_handler(signal_);
  passing_.store(false, std::memory_order_relaxed);
}

void ChainedHandler::restore_default() const noexcept {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal_, &action, nullptr);
}

}  // namespace tensorbus::platform
