#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::kills {

// This program once more, in a process group of its own with whatever it forks. Killed, all of
// them, if it still lives when this goes; also when the thread that started it ends.
class Child {
 public:
  // `input` and `output`: a pipe to its standard input, and one from its standard output.
  struct Pipes {
    bool input = false;
    bool output = false;
  };
  explicit Child(const std::vector<std::string>& arguments, Pipes pipes = {false, false});
  ~Child();
  Child(Child&& from) noexcept;
  Child& operator=(Child&& from) noexcept;

  pid_t pid() const noexcept { return pid_; }
  int input() const noexcept { return input_.get(); }
  int output() const noexcept { return output_.get(); }

  void signal(int number) const;
  // Returns at the moment at which the kernel says that it is dead.
  void wait_for_death() const;
  // As waitpid() says it.
  int reap();
  // Kills what it forked and left behind; returns how many processes that were.
  int end_orphans();

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  bool orphans_ended_ = false;
  platform::Fd pidfd_;
  platform::Fd input_;
  platform::Fd output_;
};

// The first thing in a child: it ends when who started it does.
void end_with_parent();
// The first thing in who starts them: what they fork becomes its own to reap.
void adopt_orphans();

}  // namespace tensorbus::kills
