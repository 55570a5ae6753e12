#include "victim.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <list>
#include <optional>
#include <thread>

#include "survivors.hpp"
#include "traffic.hpp"

namespace tensorbus::kills {
namespace {

constexpr int kSomethingWrong = 70;
constexpr unsigned kOrphanSeconds = 120;  // should nobody kill it

// A child that does nothing, with everything that it inherited.
void leave_a_child(Role role) {
  if (role != Role::kForks && role != Role::kClones) return;
  const auto child = role == Role::kForks
                         ? ::fork()
                         : static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child != 0) return;
  ::alarm(kOrphanSeconds);
  while (true) ::pause();
}

// From joining to leaving: what comes next is drawn each time.
class Life {
 public:
  Life(const std::string& domain, Role role, Random& random, Tally& tally)
      : role_(role),
        random_(random),
        tally_(tally),
        participant_(bus::make_participant(participant_options(domain))) {
    if (role != Role::kSubscriber) open_writer();
    if (role != Role::kPublisher) open_reader();
  }

  void do_something() {
    const auto draw = below(random_, 100);
    if (draw < 2 && role_ != Role::kSubscriber) return open_writer();
    if (draw < 4 && role_ != Role::kPublisher) return open_reader();
    if (draw < 5 && !writers_.empty()) return writers_.pop_front();
    if (draw < 7 && !readers_.empty()) return close_reader();
    if (role_ == Role::kPublisher || (role_ != Role::kSubscriber && draw < 50)) return write();
    read();
  }

 private:
  const Topic& any_topic() { return kTopics[below(random_, kTopics.size())]; }

  void open_writer() {
    if (writers_.size() < 4)
      writers_.emplace_back(any_topic(), participant_, random_, tally_, 30ms);
  }
  void open_reader() {
    if (readers_.size() == 4) return;
    const Topic& topic = any_topic();
    SubscriberOptions options;
    options.depth = chance(random_, 30) ? 1 + static_cast<std::uint32_t>(below(random_, 8)) : 0;
    options.max_held = chance(random_, 10) ? 4 : 64;
    if (chance(random_, 30)) options.access = Access::kPrivate;
    // Who is not asked to share refuses, once in a while.
    if (chance(random_, topic.options.shared ? 40 : 1)) options.access = Access::kShared;
    readers_.emplace_back(topic, options, participant_, tally_);
  }
  void close_reader() {
    if (chance(random_, 50)) readers_.front().subscriber().close();  // before what it holds goes
    readers_.pop_front();
  }

  void write() {
    if (writers_.empty()) return;
    auto at = std::next(writers_.begin(), static_cast<int>(below(random_, writers_.size())));
    if (chance(random_, 5)) {
      (void)at->publisher().loan<std::uint8_t>({static_cast<int>(1 + below(random_, 100'000))});
      return;  // not published
    }
    try {
      (void)at->write(any_form(random_));
    } catch (const Error& error) {
      if (error.code() != Code::kOutOfMemory) throw;
    }
  }
  void read() {
    if (readers_.empty()) return;
    auto at = std::next(readers_.begin(), static_cast<int>(below(random_, readers_.size())));
    if (chance(random_, 10)) (void)at->subscriber().event_descriptor();
    if (chance(random_, 50))
      (void)at->try_receive();
    else
      (void)at->receive(std::chrono::microseconds(below(random_, 3000)));
    if (chance(random_, 30)) at->release_until(below(random_, 20));
    if (at->held() >= 30) at->release_until(29);
  }

  const Role role_;
  Random& random_;
  Tally& tally_;
  const bus::ParticipantRef participant_;
  std::list<Writer> writers_;
  std::list<Reader> readers_;
};

}  // namespace

int be_a_victim(const std::string& domain, std::uint64_t seed, Role role) {
  Random random(seed);
  Tally tally;
  const bool hurries = chance(random, 30);
  auto until_child = chance(random, 50) ? below(random, 20) : below(random, 200);
  while (true) {
    Life life(domain, role, random, tally);
    std::optional<Life> second;
    if (chance(random, 20)) second.emplace(domain, role, random, tally);
    for (auto left = chance(random, 30) ? below(random, 20) : below(random, 500); left > 0;
         --left) {
      if (until_child-- == 0) leave_a_child(role);
      (second && chance(random, 50) ? *second : life).do_something();
      if (tally.wrong != 0) return kSomethingWrong;
      if (!hurries) std::this_thread::sleep_for(std::chrono::microseconds(below(random, 800)));
    }
  }
}

int be_a_hoarder(const std::string& domain, Role leaves) {
  const bus::ParticipantRef participant = bus::make_participant(participant_options(domain));
  bus::Subscriber subscriber(kHoardTopic, {}, participant);
  std::vector<bus::Sample> held;
  while (held.size() < kHoard)
    if (auto sample = subscriber.receive(1s)) held.push_back(std::move(*sample));
  leave_a_child(leaves);
  if (::write(STDOUT_FILENO, "h", 1) != 1) return kSomethingWrong;
  while (true) ::pause();
}

}  // namespace tensorbus::kills
