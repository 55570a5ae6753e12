// A call of a service of another process, through the public headers: client and server look for
// what the other one puts, as they do while calls follow each other, or both are asleep before each
// call. Each row has two processes of its own.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tensorbus/tensorbus.hpp>
#include <thread>

#include "harness/cores.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Content;
using tensorbus::Outcome;
using tensorbus::Value;

struct Row {
  const char* name;
  int calls;
  std::chrono::microseconds pause;
};
constexpr Row kRows[] = {
    {"service call, polled", 50'000, 0us},
    {"service call, asleep", 2'000, 500us},  // the pause is enough to fall asleep
};

// Until it is killed.
[[noreturn]] void serve(const std::string& domain) {
  const tensorbus::Participant participant({.domain = domain});
  tensorbus::Service service("echo", [](Content request) { return request; }, participant);
  for (;;) (void)service.serve(60s);
}

void call(const Row& row, const std::string& domain, int repetition, int calls) {
  const tensorbus::Participant participant({.domain = domain});
  tensorbus::Client client("echo", {.timeout = 60s}, participant);
  Histogram times;
  for (int i = -calls / 10; i < calls; ++i) {
    if (row.pause != 0us) std::this_thread::sleep_for(row.pause);
    const std::uint64_t begin = ticks_before();
    const Content reply = client.call(Value(7));
    const std::uint64_t end = ticks_after();
    if (!(reply.fields == Value(7))) die("another reply");
    if (i >= 0) times.add(end - begin);
  }
  report(row.name, repetition, times);
}

template <typename Work>
pid_t in_process(int core, const Work& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin_to(core);
  work();
  std::_Exit(0);
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  for (int repetition = 0; repetition < arguments.repetitions(); ++repetition)
    for (const Row& row : kRows) {
      std::string domain = "/tmp/tensorbus-bench-XXXXXX";
      if (::mkdtemp(domain.data()) == nullptr) return 1;
      const int calls = arguments.quick ? row.calls / 10 : row.calls;
      const pid_t server = in_process(core_pair().receiver, [&] { serve(domain); });
      const pid_t client =
          in_process(core_pair().sender, [&] { call(row, domain, repetition, calls); });
      int status = 0;
      ::waitpid(client, &status, 0);
      ::kill(server, SIGKILL);
      ::waitpid(server, nullptr, 0);
      std::filesystem::remove_all(domain);
      if (status != 0) return 1;
    }
}
