#include "tensorbus/cli/caught_signals.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <tensorbus/values/error.hpp>

namespace tensorbus::cli {

bool has_action(int number, void (*handler)(int)) {
  struct sigaction found{};
  return ::sigaction(number, nullptr, &found) == 0 && found.sa_handler == handler;
}

CaughtSignals::CaughtSignals(const std::vector<int>& more) {
  sigemptyset(&all_);
  for (const int number : {SIGINT, SIGTERM}) sigaddset(&all_, number);
  for (const int number : more) sigaddset(&all_, number);
  if (!has_action(SIGHUP, SIG_IGN)) sigaddset(&all_, SIGHUP);  // nohup has it ignored
  signals_ = ::signalfd(-1, &all_, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0)
    throw Error(Code::kSystem, "signals: " + std::generic_category().message(errno));
  ::pthread_sigmask(SIG_BLOCK, &all_, &before_);
}

CaughtSignals::~CaughtSignals() {
  while (next(std::chrono::nanoseconds::zero()) != 0) continue;
  ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int CaughtSignals::next(std::chrono::steady_clock::duration timeout, int descriptor) const {
  const auto left = std::max(timeout, std::chrono::steady_clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec limit{seconds.count(), (left - seconds) / std::chrono::nanoseconds(1)};
  std::array<pollfd, 2> watched{{{signals_, POLLIN, 0}, {descriptor, POLLIN, 0}}};
  if (::ppoll(watched.data(), watched.size(), &limit, nullptr) <= 0) return 0;
  signalfd_siginfo signal{};
  if (::read(signals_, &signal, sizeof signal) != sizeof signal) return 0;
  return static_cast<int>(signal.ssi_signo);
}

}  // namespace tensorbus::cli
