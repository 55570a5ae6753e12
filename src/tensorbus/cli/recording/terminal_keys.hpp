#pragma once

#include <termios.h>

#include <optional>
#include <string>

namespace tensorbus::cli {

// The keys of the command's terminal, if standard input is one. They are read while the command is
// in the terminal's foreground, in a mode without echo and line editing. In the background the
// kernel would stop the command for reading the terminal.
//
// The shell's mode is restored when the command stops and when it ends. For one thread. SIGTTIN and
// SIGTTOU are blocked from now on, so that a shell that puts the command into the background at
// any moment does not stop it.
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

  bool is_terminal_;
  std::optional<termios> shell_mode_;  // while the command's mode is set
};

}  // namespace tensorbus::cli
