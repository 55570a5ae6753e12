#include "cpp_peers/iceoryx.hpp"

#ifdef BENCH_ICEORYX

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iceoryx_posh/popo/untyped_publisher.hpp>
#include <iceoryx_posh/popo/untyped_subscriber.hpp>
#include <iceoryx_posh/runtime/posh_runtime.hpp>
#include <optional>
#include <thread>

namespace bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 20s;  // the daemon writes to all of its memory first
constexpr int kChunks = 4;       // of each size: one is lent, one is received

std::string config() {
  std::string text = "[general]\nversion = 1\n\n[[segment]]\n";
  for (const Size& size : kSizes)
    text += "\n[[segment.mempool]]\nsize = " + std::to_string(size.bytes) +
            "\ncount = " + std::to_string(kChunks) + "\n";
  return text;
}

iox::capro::ServiceDescription service_of(const char* name) {
  return {"tensorbus", "bench", iox::capro::IdString_t(iox::cxx::TruncateToCapacity, name)};
}

[[noreturn]] void become_daemon(const std::string& path) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  ::execlp("iox-roudi", "iox-roudi", "--log-level", "off", "--config-file", path.c_str(), nullptr);
  ::_exit(127);
}

void join_daemon() {
  using namespace iox::log;
  LogManager::GetLogManager().SetDefaultLogLevel(LogLevel::kError, LogLevelOutput::kHideLogLevel);
  iox::runtime::PoshRuntime::initRuntime(
      iox::RuntimeName_t(iox::cxx::TruncateToCapacity, "bench-" + std::to_string(::getpid())));
}

// A machine has one at a time, at this address.
bool has_daemon() {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address{AF_UNIX, "/tmp/roudi"};
  const bool has =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return has;
}

bool has_ended(pid_t child) { return ::waitpid(child, nullptr, WNOHANG) == child; }

template <typename Holds>
void wait_until(Holds holds, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    require(std::chrono::steady_clock::now() < deadline, what);
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace

RouDi::RouDi() {
  if (has_daemon()) {
    why_not_ = "there is another iox-roudi, whose memory is not for these sizes";
    return;
  }
  const std::string path = folder_.path() + "/roudi.toml";
  std::ofstream(path) << config();
  daemon_ = ::fork();
  if (daemon_ < 0) die("fork");
  if (daemon_ == 0) become_daemon(path);
  wait_for_daemon();
}

// Which answers once its memory is there.
void RouDi::wait_for_daemon() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!has_daemon() && why_not_.empty()) {
    if (has_ended(daemon_)) {
      daemon_ = -1;
      why_not_ = "iox-roudi ended: it is not installed, or there is no room in /dev/shm";
    } else if (std::chrono::steady_clock::now() > deadline) {
      why_not_ = "iox-roudi does not answer";
    }
    std::this_thread::sleep_for(10ms);
  }
}

RouDi::~RouDi() {
  if (daemon_ <= 0) return;
  ::kill(daemon_, SIGTERM);
  ::waitpid(daemon_, nullptr, 0);
}

struct IceoryxWay::Ends {
  explicit Ends(const Size& size)
      : bytes(static_cast<std::uint32_t>(size.bytes)), service(service_of(size.name)) {}

  void* loan() {
    auto lent = publisher->loan(bytes);
    require(!lent.has_error(), "iceoryx has no chunk left");
    return lent.value();
  }
  const void* take() {
    while (true)
      if (auto taken = subscriber->take(); !taken.has_error()) return taken.value();
  }

  std::uint32_t bytes;
  iox::capro::ServiceDescription service;
  std::optional<iox::popo::UntypedPublisher> publisher;
  std::optional<iox::popo::UntypedSubscriber> subscriber;
};

IceoryxWay::IceoryxWay(TwoProcesses& both, const Size& size)
    : both_(both), ends_(std::make_unique<Ends>(size)) {
  [[maybe_unused]] static const bool joined = (join_daemon(), true);
  Ends& ends = *ends_;
  if (both.is_sender()) {
    ends.publisher.emplace(ends.service);
    wait_until([&] { return ends.publisher->hasSubscribers(); }, "no subscriber of iceoryx came");
  } else {
    ends.subscriber.emplace(ends.service);
    wait_until(
        [&] { return ends.subscriber->getSubscriptionState() == iox::SubscribeState::SUBSCRIBED; },
        "no publisher of iceoryx came");
  }
}

IceoryxWay::~IceoryxWay() = default;

void IceoryxWay::run(const std::string& row, const Pace& pace, Rows& rows) {
  Ends& ends = *ends_;
  SentAt sent(both_);
  if (both_.is_sender())
    return send_paced(
        both_, pace, [&] { return ends.loan(); },
        [&](void* chunk) {
          const std::uint64_t begin = ticks_before();
          ends.publisher->publish(chunk);
          sent.tell(begin);
        });
  Histogram latency;
  receive_paced(both_, pace, latency, [&](std::uint64_t) {
    const void* const chunk = ends.take();
    const std::uint64_t now = ticks_after();
    ends.subscriber->release(chunk);
    return ticks_between(sent.hear(), now);
  });
  rows.add(row, latency);
}

}  // namespace bench

#else

namespace bench {

RouDi::RouDi() : why_not_("is not installed (scripts/bench --peers installs all)") {}
RouDi::~RouDi() = default;

struct IceoryxWay::Ends {};

IceoryxWay::IceoryxWay(TwoProcesses& both, const Size&) : both_(both) {
  require(false, "this program was built without iceoryx");
}
IceoryxWay::~IceoryxWay() = default;
void IceoryxWay::run(const std::string&, const Pace&, Rows&) {}

}  // namespace bench

#endif
