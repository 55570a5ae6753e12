#include "tensorbus/cli/recording/terminal_keys.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace tensorbus::cli {

TerminalKeys::TerminalKeys() : is_terminal_(::isatty(STDIN_FILENO) != 0) {
  sigset_t of_terminals;
  sigemptyset(&of_terminals);
  sigaddset(&of_terminals, SIGTTIN);
  sigaddset(&of_terminals, SIGTTOU);
  ::pthread_sigmask(SIG_BLOCK, &of_terminals, &signals_before_);
}

TerminalKeys::~TerminalKeys() {
  restore();
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

int TerminalKeys::begin() {
  if (!is_in_foreground()) return -1;
  termios mode{};
  if (::tcgetattr(STDIN_FILENO, &mode) != 0) return -1;  // the terminal is gone
  if ((mode.c_lflag & (ICANON | ECHO)) != 0) {
    shell_mode_ = mode;
    mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);  // keeps keys that were typed before
  }
  return STDIN_FILENO;
}

std::string TerminalKeys::pressed() {
  pollfd terminal{STDIN_FILENO, POLLIN, 0};
  if (!is_in_foreground() || ::poll(&terminal, 1, 0) != 1) return "";
  std::array<char, 64> keys{};
  const ssize_t count = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (count > 0) return {keys.data(), static_cast<std::size_t>(count)};
  // EIO is the background; at the end of the terminal there are no more keys.
  if (count == 0 || ::tcgetpgrp(STDIN_FILENO) < 0) is_terminal_ = false;
  return "";
}

void TerminalKeys::stop() {
  restore();
  sigset_t stop_signal;
  sigemptyset(&stop_signal);
  sigaddset(&stop_signal, SIGTSTP);
  std::raise(SIGTSTP);                                    // it is blocked ...
  ::pthread_sigmask(SIG_UNBLOCK, &stop_signal, nullptr);  // ... and stops the process here
  ::pthread_sigmask(SIG_BLOCK, &stop_signal, nullptr);
}

bool TerminalKeys::is_in_foreground() const {
  return is_terminal_ && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

void TerminalKeys::restore() {
  if (shell_mode_ && is_in_foreground()) (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &*shell_mode_);
  shell_mode_.reset();
}

}  // namespace tensorbus::cli
