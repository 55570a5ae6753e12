// What a participant with a publisher and a subscriber costs a process when nothing happens.

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "harness/messages.hpp"
#include "harness/process_use.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;

struct Memory {
  double rss = rss_bytes();
  double pss = pss_bytes();
};

// The CPU time that all threads but this one use while this one sleeps.
void report_idle(const char* name, int repetition, const Memory& before,
                 std::chrono::seconds idle) {
  const Memory now;
  const ThreadUse begin = use_of_other_threads();
  std::this_thread::sleep_for(idle);
  const ThreadUse end = use_of_other_threads();
  const auto seconds = static_cast<double>(idle.count());
  report(name, repetition,
         {{"rss_bytes", now.rss - before.rss},
          {"pss_bytes", now.pss - before.pss},
          {"cpu_ns_per_second", (end.cpu_ns - begin.cpu_ns) / seconds},
          {"wake_ups_per_second", (end.wake_ups - begin.wake_ups) / seconds}});
}

// Five seconds after the last one has connected, a participant looks once whether it has said who
// it is. That belongs to its coming: the idle time is either over by then, or begins after it.
constexpr auto kGreeted = 5500ms;
constexpr auto kConnected = 200ms;

struct Idle {
  std::chrono::milliseconds before;
  std::chrono::seconds time;
};

void run(const std::string& domain, int repetition, const Idle& idle) {
  (void)Memory();  // what the measuring itself touches is not to count
  const Memory before;
  const tensorbus::bus::ParticipantRef participant =
      tensorbus::bus::make_participant({.domain = domain});
  tensorbus::bus::Publisher publisher("idle", {}, participant);
  tensorbus::bus::Subscriber subscriber("idle", {}, participant);
  require(subscriber.wait_for_publishers(1, 10s) == tensorbus::Outcome::kDone, "not connected");
  std::this_thread::sleep_for(idle.before);
  report_idle("participant", repetition, before, idle.time);
  std::thread receiver([&] { (void)subscriber.receive(idle.time + 1s); });
  std::this_thread::sleep_for(kConnected);
  report_idle("participant, a thread in receive()", repetition, before, idle.time);
  subscriber.close();
  receiver.join();
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const Idle idle = arguments.quick ? Idle{kConnected, 1s} : Idle{kGreeted, 5s};
  std::string domain = "/tmp/tensorbus-bench-XXXXXX";
  if (::mkdtemp(domain.data()) == nullptr) die("mkdtemp");
  int status = 0;
  for (int repetition = 0; repetition < (arguments.quick ? 1 : 3) && status == 0; ++repetition) {
    const pid_t child = ::fork();  // each in a process that has allocated nothing yet
    if (child < 0) die("fork");
    if (child == 0) {
      run(domain, repetition, idle);
      ::_exit(0);
    }
    ::waitpid(child, &status, 0);
  }
  std::filesystem::remove_all(domain);
  return status == 0 ? 0 : 1;
}
