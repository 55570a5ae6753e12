#pragma once

#include <signal.h>
#include <termios.h>

#include <optional>
#include <string>

namespace tensorbus::cli {

// The keys of the command's terminal, if standard input is one. They are read while the command is
// in the terminal's foreground, in a mode without echo and line editing. In the background the
// kernel would stop the command for reading the terminal.
//
// The shell's mode is restored when the command stops and when it ends. For one thread, in which
// SIGTTIN and SIGTTOU are blocked while this object exists, so that a shell that puts the command
// into the background at any moment does not stop it.
class TerminalKeys {
 public:
  TerminalKeys();
  TerminalKeys(const TerminalKeys&) = delete;
  TerminalKeys& operator=(const TerminalKeys&) = delete;
  ~TerminalKeys();

  // Sets the command's mode, and returns the descriptor to wait for; -1 if no key can be read now.
  int begin();
  // Returns the keys that were pressed, without waiting.
  std::string pressed();
  // Restores the shell's mode, and does the default action of SIGTSTP. Returns after SIGCONT.
  void stop();

 private:
  bool is_in_foreground() const;
  void restore();

  sigset_t signals_before_{};  // that were blocked
  bool is_terminal_;
  std::optional<termios> shell_mode_;  // while the command's mode is set
};

}  // namespace tensorbus::cli
