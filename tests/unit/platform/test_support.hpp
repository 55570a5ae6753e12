#pragma once

// For tests only: real processes, temporary directories, and ways to wait for an event instead of
// for a while.

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENSORBUS_SANITIZED 1
#else
#define TENSORBUS_SANITIZED 0
#endif

namespace tensorbus::test {

// Returns how many bytes of memory a file of a memory file system takes.
inline std::size_t resident_bytes(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw std::runtime_error("fstat failed");
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

// The code of the Error that `action` throws; a message when it throws none, so that
// EXPECT_EQ says what came instead.
template <typename Action>
std::string error_of(Action&& action, std::string* message = nullptr) {
  static constexpr const char* kNames[] = {
      "InvalidArgument", "Unsupported",     "OutOfMemory", "Closed", "Timeout",
      "Protocol",        "VersionMismatch", "Permission",  "Forked", "System"};
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return kNames[static_cast<int>(error.code())];
  } catch (const std::exception& error) {
    return std::string("not an Error: ") + error.what();
  }
  return "nothing thrown";
}

inline bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

// Returns when the thread is parked in the kernel; give up only if it ended.
inline bool wait_until_asleep(pid_t process, pid_t thread) {
  const std::string path =
      "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/stat";
  while (true) {
    std::ifstream file(path);
    std::string text;
    if (!std::getline(file, text)) return false;
    const char state = text.at(text.rfind(')') + 2);
    if (state == 'S') return true;
    if (state == 'Z' || state == 'X') return false;
    ::sched_yield();
  }
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "tensorbus-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file, with the directories above it.
  void write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }

 private:
  std::string path_;
};

// A forked child that runs `body` and exits at once with what it returns: 0 or true is success,
// an exception is not. Nothing of the parent is destroyed in it. Killed if nobody waited for it.
class Child {
 public:
  template <typename Body>
  explicit Child(Body&& body) : pid_(::fork()) {
    if (pid_ < 0) std::abort();
    if (pid_ > 0) return;
    int code = 99;
    try {
      code = std::forward<Body>(body)() ? 0 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
    }
    ::_exit(code);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait_status();
  }

  pid_t pid() const { return pid_; }
  // "exit 0", "signal 9" or "stop 19".
  std::string wait() {
    const int status = wait_status();
    if (WIFSTOPPED(status)) return "stop " + std::to_string(WSTOPSIG(status));
    pid_ = -1;
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    return "exit " + std::to_string(WEXITSTATUS(status));
  }

 private:
  int wait_status() const {
    int status = 0;
    while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
    return status;
  }

  pid_t pid_;
};

}  // namespace tensorbus::test
