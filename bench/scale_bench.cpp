// Many topics between two processes, and many participants in one domain: how long until all have
// found each other, what each process takes from the machine, and what it takes when nothing
// happens.
//
// Of n topics one process has the publishers, and the clock starts before the other makes the first
// of its subscribers. Of n participants each is a process with a publisher of its own topic and a
// subscriber to the next one's; the clock starts before any of them is made. All share two cores.

#include <array>
#include <deque>
#include <thread>

#include "harness/process_use.hpp"
#include "harness/processes.hpp"
#include "harness/report.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;

constexpr std::size_t kMax = 64;  // processes
constexpr auto kPatience = 60s;

struct Use {
  double pss = 0;
  double descriptors = 0;
  double cpu_ns_per_second = 0;
};

struct Board {
  std::atomic<int> here{0};  // processes that have come
  std::atomic<int> connected{0};
  std::atomic<int> used{0};  // who have written their use
  std::atomic<std::uint64_t> begin_ns{0};
  std::atomic<std::uint64_t> end_ns{0};
  std::array<Use, kMax> uses;
};

void wait_until(const std::atomic<int>& count, int wanted) {
  while (count.load() < wanted) std::this_thread::sleep_for(1ms);
}

// The last one's is the one that stays.
void note_now(std::atomic<std::uint64_t>& when) {
  const std::uint64_t now = monotonic_ns();
  std::uint64_t before = when.load();
  while (before < now && !when.compare_exchange_weak(before, now)) {
  }
}

// Written when all are connected and quiet, by all at the same time.
void note_use(Board& board, std::size_t index, int processes, double pss_before,
              std::chrono::milliseconds idle) {
  note_now(board.end_ns);
  ++board.connected;
  wait_until(board.connected, processes);
  std::this_thread::sleep_for(200ms);
  Use& use = board.uses[index];
  use.pss = pss_bytes() - pss_before;
  use.descriptors = open_descriptors();
  const ThreadUse begin = use_of_other_threads();
  std::this_thread::sleep_for(idle);
  const ThreadUse end = use_of_other_threads();
  use.cpu_ns_per_second = (end.cpu_ns - begin.cpu_ns) / std::chrono::duration<double>(idle).count();
  ++board.used;
  wait_until(board.used, processes);  // nobody's end is to disturb
}

void report_board(const Board& board, const std::string& row, int repetition, int processes) {
  Use mean;
  for (int i = 0; i < processes; ++i) {
    const Use& use = board.uses[static_cast<std::size_t>(i)];
    mean.pss += use.pss / processes;
    mean.descriptors += use.descriptors / processes;
    mean.cpu_ns_per_second += use.cpu_ns_per_second;  // of all
  }
  report(row, repetition,
         {{"discovery_ns", static_cast<double>(board.end_ns.load() - board.begin_ns.load())},
          {"pss_bytes", mean.pss},
          {"descriptors", mean.descriptors},
          {"idle_cpu_ns", mean.cpu_ns_per_second}});
}

std::string topic(std::size_t number) { return "topic/" + std::to_string(number); }

void publish_topics(Board& board, const std::string& domain, std::size_t topics,
                    std::chrono::milliseconds idle) {
  const double before = pss_bytes();
  const tensorbus::bus::ParticipantRef participant =
      tensorbus::bus::make_participant({.domain = domain});
  std::deque<tensorbus::bus::Publisher> publishers;
  for (std::size_t i = 0; i < topics; ++i)
    publishers.emplace_back(topic(i), tensorbus::PublisherOptions{}, participant);
  ++board.here;
  for (auto& publisher : publishers)
    require(publisher.wait_for_subscribers(1, kPatience) == Outcome::kDone, "no subscriber came");
  note_use(board, 0, 2, before, idle);
}

void subscribe_topics(Board& board, const std::string& domain, std::size_t topics,
                      std::chrono::milliseconds idle) {
  wait_until(board.here, 1);
  const double before = pss_bytes();
  const tensorbus::bus::ParticipantRef participant =
      tensorbus::bus::make_participant({.domain = domain});
  note_now(board.begin_ns);
  std::deque<tensorbus::bus::Subscriber> subscribers;
  for (std::size_t i = 0; i < topics; ++i)
    subscribers.emplace_back(topic(i), tensorbus::SubscriberOptions{}, participant);
  for (auto& subscriber : subscribers)
    require(subscriber.wait_for_publishers(1, kPatience) == Outcome::kDone, "no publisher came");
  note_use(board, 1, 2, before, idle);
}

void measure_topics(std::size_t topics, int repetition, std::chrono::milliseconds idle) {
  const OwnDomain domain;
  Shared<Board> board;
  const CorePair cores = core_pair();
  Processes processes;
  processes.start(cores.sender, [&] { publish_topics(*board, domain.path(), topics, idle); });
  processes.start(cores.receiver, [&] { subscribe_topics(*board, domain.path(), topics, idle); });
  processes.join();
  report_board(*board, std::to_string(topics) + (topics == 1 ? " topic" : " topics"), repetition,
               2);
}

void take_part(Board& board, const std::string& domain, std::size_t index, int processes,
               std::chrono::milliseconds idle) {
  ++board.here;
  wait_until(board.here, processes);
  const double before = pss_bytes();
  std::uint64_t unset = 0;
  board.begin_ns.compare_exchange_strong(unset, monotonic_ns());
  const tensorbus::bus::ParticipantRef participant =
      tensorbus::bus::make_participant({.domain = domain});
  tensorbus::bus::Publisher publisher(topic(index), {}, participant);
  tensorbus::bus::Subscriber subscriber(topic((index + 1) % static_cast<std::size_t>(processes)),
                                        {}, participant);
  require(subscriber.wait_for_publishers(1, kPatience) == Outcome::kDone, "no publisher came");
  require(publisher.wait_for_subscribers(1, kPatience) == Outcome::kDone, "no subscriber came");
  note_use(board, index, processes, before, idle);
}

void measure_participants(int count, int repetition, std::chrono::milliseconds idle) {
  const OwnDomain domain;
  Shared<Board> board;
  const CorePair cores = core_pair();
  Processes processes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    processes.start(i % 2 == 0 ? cores.sender : cores.receiver,
                    [&, i] { take_part(*board, domain.path(), i, count, idle); });
  processes.join();
  report_board(*board, std::to_string(count) + " participants", repetition, count);
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const auto idle = arguments.quick ? 300ms : 2000ms;
  for (int repetition = 0; repetition < (arguments.quick ? 1 : 3); ++repetition) {
    for (const std::size_t topics : {1U, 100U, 1000U}) measure_topics(topics, repetition, idle);
    for (const int participants : {2, 16, 64}) measure_participants(participants, repetition, idle);
  }
}
