#include "tensorbus/bus/inspection.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/domain_path.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/inspect/process_info.hpp"
#include "tensorbus/bus/inspect/report_codec.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/link/wire/peer.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/files/directory.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/files/private_directory.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxInspectionBytes = std::size_t{64} << 20;  // of all reports together
constexpr auto kAskAgainDelay = 10ms;  // after a full backlog, or a lack of descriptors

std::string seconds_text(std::chrono::nanoseconds time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::chrono::duration<double>(time).count());
  return text.data();
}

// The request to one participant, and its reply.
class Question {
 public:
  Question(int directory, const Id& id) : directory_(directory) { report_.participant = id; }

  const Id& id() const noexcept { return report_.participant; }
  ParticipantReport& report() noexcept { return report_; }
  bool is_open() const noexcept { return state_ == State::kOpen; }
  bool is_dead() const noexcept { return state_ == State::kDead; }
  // Returns the socket to poll; -1: not connected yet.
  int fd() const noexcept { return channel_ ? channel_->fd() : -1; }
  // True if go_on() may make progress. Set from the result of poll().
  bool ready = true;

  // Connects, or reads the reply. `room`: bytes that reports may still take.
  void go_on(std::size_t& room) {
    try {
      if (!channel_) return connect();
      channel_->flush();
      receive(room);
    } catch (const Error& error) {
      if (error.code() != Code::kOutOfMemory || channel_) return end(error.what());
      shortage_ = error.what();
    }
  }
  void end(const std::string& error) {
    report_.error = error;
    state_ = State::kDone;
    channel_.reset();
  }
  void give_up(const platform::StopCondition& stop) {
    const bool in_time = stop.remaining(stop.timeout()).count() > 0;
    std::string why = in_time ? "the call was interrupted before the process replied"
                              : "no answer within " + seconds_text(stop.timeout());
    if (!channel_ && !shortage_.empty()) {
      why += ": this process had no room for a connection to it: " + shortage_;
    } else if (report_.pid != 0 && !in_time) {
      const std::string state = process_state(std::to_string(report_.pid));
      why += ": the process " + (state.empty() ? "is busy, or hangs" : state);
    }
    end(why);
  }

 private:
  enum class State { kOpen, kDone, kDead };

  void connect() {
    platform::Connection connection = platform::connect_in(directory_, socket_name(id()));
    if (connection.outcome == platform::Connect::kDead) state_ = State::kDead;
    if (connection.outcome != platform::Connect::kDone) return;
    const int socket = connection.socket.get();
    report_.pid = static_cast<std::uint32_t>(platform::peer_credentials(socket).pid);
    link::check_same_user(socket);
    channel_.emplace(std::move(connection.socket), [](bool) {});
    channel_->send(link::Inspect{});
  }

  void receive(std::size_t& room) {
    link::Channel::Received received;
    switch (channel_->receive(received)) {
      case link::Channel::State::kNothing:
        return;
      case link::Channel::State::kEnded:
        return hung_up();
      case link::Channel::State::kMessage:
        break;
    }
    if (received.header.type == link::ControlType::kRefused) return refused(received);
    if (received.header.type != link::ControlType::kInspected)
      throw link::unexpected_message(received.header.type);
    const auto answer = received.as<link::Inspected>();
    const platform::Fd memfd = received.take_fd();
    if (answer.bytes > std::min(kMaxReportBytes, room))
      return end("its report is too large: " + std::to_string(answer.bytes) + " bytes");
    accept(decode_report(platform::read_sealed_copy(memfd.get(), answer.bytes, "INSPECTED")));
    room -= answer.bytes;  // an invalid report takes no room
  }

  void accept(ParticipantReport reply) {
    reply.participant = report_.participant;
    reply.pid = report_.pid;
    report_ = std::move(reply);
    end({});
  }

  void refused(link::Channel::Received& received) {
    const auto refusal = received.as<link::Refused>();
    const unsigned version = received.header.version;
    std::string why = "it refused: " + link::as_reason(refusal.text);
    if (version != link::kProtocolVersion)
      why = "its protocol version is " + std::to_string(version) + ", this process has version " +
            std::to_string(link::kProtocolVersion) + "; " + why;
    end(why);
  }

  // A participant that has closed in the meantime is not listed: its state becomes kDead.
  void hung_up() {
    channel_.reset();
    const auto again = platform::connect_in(directory_, socket_name(id()));
    if (again.outcome == platform::Connect::kDead)
      state_ = State::kDead;
    else
      end("it closed the connection without a reply");
  }

  const int directory_;
  ParticipantReport report_;
  State state_ = State::kOpen;
  std::optional<link::Channel> channel_;
  std::string shortage_;  // the shortage at the last attempt to connect
};

using Questions = std::vector<std::unique_ptr<Question>>;

bool all_ended(const Questions& questions) {
  return std::ranges::none_of(questions, [](const auto& one) { return one->is_open(); });
}

platform::FutexWait wait_for_some(const Questions& questions, std::chrono::nanoseconds most) {
  std::vector<Question*> connected;
  std::vector<pollfd> polled;  // only open sockets: poll() accepts at most RLIMIT_NOFILE
  for (const auto& question : questions) {
    if (!question->is_open()) continue;
    if (question->fd() < 0) {
      most = std::min<std::chrono::nanoseconds>(most, kAskAgainDelay);
      continue;
    }
    connected.push_back(question.get());
    polled.push_back({question->fd(), POLLIN, 0});
  }
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(most);
  const int count = ::poll(polled.data(), polled.size(), static_cast<int>(rest.count()));
  for (std::size_t i = 0; i < connected.size(); ++i) connected[i]->ready = polled[i].revents != 0;
  if (count > 0) return platform::FutexWait::kWoken;
  return count < 0 ? platform::FutexWait::kInterrupted : platform::FutexWait::kTimedOut;
}

// The information in a domain's files about participants that did not reply.
class Markers {
 public:
  Markers(int directory, const std::vector<std::string>& files)
      : directory_(directory), files_(files) {}

  void describe(ParticipantReport& report) const {
    std::set<std::string> nodes;
    std::set<std::string> topics;
    for (const std::string& file : files_) {
      const auto marker = parse_marker(file);
      if (!marker || marker->participant != report.participant) continue;
      auto advertised =
          decode_advertisement(platform::read_file(directory_, file, kMaxMarkerBytes));
      if (!advertised) continue;
      if (report.pid == 0) report.pid = advertised->pid;
      if (marker->escaped_topic.starts_with(kNodeMarker))
        nodes.insert(std::move(advertised->name));
      else if (marker->is_topic())
        topics.insert(std::move(advertised->name));
    }
    report.nodes.assign(nodes.begin(), nodes.end());
    report.topics.assign(topics.begin(), topics.end());
  }

 private:
  const int directory_;
  const std::vector<std::string>& files_;
};

void name_topics(ParticipantReport& report) {
  std::set<std::string> topics;
  for (const PublisherReport& publisher : report.publishers) topics.insert(publisher.topic);
  report.topics.assign(topics.begin(), topics.end());
}

// The program names of peers. The report of a participant has only the ids and pids of its peers.
class ProcessNames {
 public:
  explicit ProcessNames(const std::vector<ParticipantReport>& reports) {
    for (const ParticipantReport& report : reports)
      names_.emplace(report.participant, report.process);
  }
  void complete(ParticipantReport& report) const {
    for (PublisherReport& publisher : report.publishers)
      for (LinkReport& link : publisher.links) complete(link.subscriber);
    for (QueueReport& queue : report.queues)
      for (QueueClientReport& client : queue.clients) complete(client.client);
    for (LentReport& lent : report.memory.lent) complete(lent.peer);
    for (BorrowedReport& borrowed : report.memory.borrowed) complete(borrowed.peer);
  }

 private:
  void complete(PeerName& peer) const {
    const auto found = names_.find(peer.participant);
    peer.process = found == names_.end() ? std::string() : found->second;
  }

  std::map<Id, std::string> names_;
};

Questions questions_for(int directory, const std::vector<std::string>& files) {
  Questions questions;
  for (const std::string& file : files)
    if (is_socket_name(file))
      questions.push_back(std::make_unique<Question>(directory, *owner_of_file(file)));
  return questions;
}

void ask(const Questions& questions, const platform::StopCondition& stop) {
  std::size_t room = kMaxInspectionBytes;
  const auto go_on = [&] {
    for (const auto& question : questions)
      if (question->is_open() && question->ready) question->go_on(room);
    return all_ended(questions);
  };
  const Outcome outcome = stop.wait(
      go_on, [&](std::chrono::nanoseconds most) { return wait_for_some(questions, most); });
  if (outcome == Outcome::kDone) return;
  for (const auto& question : questions)
    if (question->is_open()) question->give_up(stop);
}

std::vector<ParticipantReport> answers_of(const Questions& questions, const Markers& markers) {
  std::vector<ParticipantReport> reports;
  for (const auto& question : questions) {
    if (question->is_dead()) continue;
    ParticipantReport& report = reports.emplace_back(std::move(question->report()));
    if (report.error.empty()) {
      name_topics(report);
    } else {
      markers.describe(report);
      if (report.pid != 0) report.process = process_name(std::to_string(report.pid));
    }
  }
  const ProcessNames names(reports);
  for (ParticipantReport& report : reports) names.complete(report);
  std::ranges::sort(reports, {}, [](const ParticipantReport& report) {
    return std::pair(report.pid, report.participant);
  });
  return reports;
}

}  // namespace

Inspection inspect(const std::string& domain, const platform::StopCondition& stop) {
  return platform::with_memory_errors([&] {
    Inspection found{.domain = domain_path(domain)};
    const auto opened = platform::open_private(found.domain, platform::IfMissing::kLeave);
    if (opened.directory) {
      const int directory = opened.directory.get();
      const std::vector<std::string> files = platform::list_directory(directory);
      const Questions questions = questions_for(directory, files);
      ask(questions, stop);
      found.participants = answers_of(questions, Markers(directory, files));
    }
    found.time_ns = platform::wall_clock_ns();
    return found;
  });
}

}  // namespace tensorbus::bus
