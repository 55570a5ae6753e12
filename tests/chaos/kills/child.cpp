#include "child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::kills {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) throw_system("pipe2", errno);
    reading = platform::Fd(ends[0]);
    writing = platform::Fd(ends[1]);
  }
  platform::Fd reading;
  platform::Fd writing;
};

}  // namespace

Child::Child(const std::vector<std::string>& arguments, Pipes pipes) {
  std::vector<std::string> words = arguments;
  std::string self = "/proc/self/exe";
  std::vector<char*> pointers{self.data()};
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  Pipe to, from;
  if (pipes.input) posix_spawn_file_actions_adddup2(&actions, to.reading.get(), STDIN_FILENO);
  if (pipes.output) posix_spawn_file_actions_adddup2(&actions, from.writing.get(), STDOUT_FILENO);
  const int error =
      ::posix_spawn(&pid_, self.c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw_system("posix_spawn", error);
  if (pipes.input) input_ = std::move(to.writing);
  if (pipes.output) output_ = std::move(from.reading);
  pidfd_ = platform::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!pidfd_) throw_system("pidfd_open", errno);
}

Child::Child(Child&& from) noexcept
    : pid_(std::exchange(from.pid_, -1)),
      reaped_(from.reaped_),
      orphans_ended_(from.orphans_ended_),
      pidfd_(std::move(from.pidfd_)),
      input_(std::move(from.input_)),
      output_(std::move(from.output_)) {}

Child& Child::operator=(Child&& from) noexcept {
  std::swap(pid_, from.pid_);
  std::swap(reaped_, from.reaped_);
  std::swap(orphans_ended_, from.orphans_ended_);
  std::swap(pidfd_, from.pidfd_);
  std::swap(input_, from.input_);
  std::swap(output_, from.output_);
  return *this;
}

Child::~Child() {
  if (pid_ <= 0) return;
  if (!reaped_) {
    signal(SIGKILL);
    (void)reap();
  }
  (void)end_orphans();
}

void Child::signal(int number) const { ::kill(pid_, number); }

void Child::wait_for_death() const {
  pollfd dead{pidfd_.get(), POLLIN, 0};
  while (::poll(&dead, 1, -1) != 1) {
  }
}

int Child::reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  return status;
}

// They are ours by adopt_orphans(), and keep the number of their group from being used again.
int Child::end_orphans() {
  if (std::exchange(orphans_ended_, true)) return 0;
  if (::kill(-pid_, SIGKILL) < 0) return 0;
  int count = 0;
  while (::waitpid(-pid_, nullptr, 0) > 0) ++count;
  return count;
}

void end_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == 1) ::_exit(1);
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

}  // namespace tensorbus::kills
