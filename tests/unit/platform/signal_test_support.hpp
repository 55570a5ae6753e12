#pragma once

// For tests of signal handlers: children that end by a signal, and what they said.

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::test {

struct End {
  std::string how;   // see Child
  std::string said;  // on stderr
};

// Without the line that qemu-user adds when a signal ends a process.
inline std::string without_emulator(std::string said) {
  const auto at = said.rfind("qemu: uncaught target signal");
  return at == std::string::npos ? said : said.substr(0, at);
}

// The handler is installed in children only, so that each child is the process that installs it, in
// front of the default for `signal`: a sanitizer's own handler is not what is tested.
template <typename Body>
End run_in_child(int signal, Body&& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::abort();
  Child child([&] {
    ::dup2(ends[1], STDERR_FILENO);
    for (const int fd : ends) ::close(fd);
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(signal, SIG_DFL);
    std::forward<Body>(body)();
    return true;
  });
  ::close(ends[1]);
  std::string said;
  std::array<char, 4096> buffer;
  for (ssize_t got; (got = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    said.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  return {child.wait(), without_emulator(std::move(said))};
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Bytes of an alternate stack of a program that is sparing with them. A sanitizer has larger
// frames.
inline std::size_t smallest_signal_stack() {
  return static_cast<std::size_t>(::sysconf(_SC_MINSIGSTKSZ)) +
         (TENSORBUS_SANITIZED ? std::size_t{64} << 10 : 2048);
}

// On stderr, also in a signal handler.
inline void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) ::_exit(98);
}

inline void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags = 0,
                   struct sigaction* before = nullptr) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  ::sigaction(signal, &action, before);
}

}  // namespace tensorbus::test
