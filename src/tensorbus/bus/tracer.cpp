#include "tensorbus/bus/tracer.hpp"

#include <utility>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/inspect/process_info.hpp"
#include "tensorbus/link/wire/peer.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::chrono::milliseconds kLook{50};    // between scans if the domain does not change
constexpr std::chrono::milliseconds kRetry{200};  // between requests repeated after a shortage
constexpr std::size_t kMaxSources = 4096;
constexpr std::size_t kMaxPublishers = std::size_t{1} << 17;
constexpr std::size_t kMaxRecords = std::size_t{1} << 21;  // of a source, before they are taken

link::Trace question_about(const std::vector<std::string>& topics) {
  link::Trace question;
  for (const std::string& topic : topics) question.topics.push_back({topic});
  if (link::encode_control(question).size() > link::kMaxControlBytes)
    throw Error(Code::kInvalidArgument,
                "topics: their names take more than 4 KiB; name none to trace all topics");
  return question;
}

}  // namespace

struct Tracer::Asked {
  Source about;
  std::optional<link::Channel> channel{};
  std::optional<link::TraceReader> ring{};
  std::vector<link::TraceRecord> records{};
  bool ask_again = false;  // because memory or descriptors were short

  void end(State state, std::string why = {}) {
    about.state = state;
    about.why = std::move(why);
    channel.reset();
  }
};

Tracer::Tracer(const std::string& domain, const std::vector<std::string>& topics)
    : domain_(domain), question_(question_about(topics)) {}

Tracer::~Tracer() = default;

void Tracer::poll() {
  // A later scan sends the requests that cannot be sent now.
  const auto now = std::chrono::steady_clock::now();
  if (watch_.drain_changes() || now >= next_look_) {
    next_look_ = now + kLook;
    look_around();
  }
  for (const auto& asked : asked_) receive_from(*asked);
}

void Tracer::look_around() {
  for (const std::string& file : domain_.list()) {
    note_publisher(file);
    if (!is_socket_name(file) || asked_.size() == kMaxSources) continue;
    const auto participant = owner_of_file(file);
    if (participant && !known_.contains(*participant)) ask(*participant);
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_retry_) return;
  next_retry_ = now + kRetry;
  for (const auto& asked : asked_)
    if (asked->ask_again) (void)connect(*asked);
}

void Tracer::note_publisher(const std::string& file) {
  if (markers_.contains(file) || publishers_.size() == kMaxPublishers) return;
  const auto marker = parse_marker(file);
  if (!marker || !marker->is_topic()) return;
  const auto advertised = decode_advertisement(domain_.read_marker(file, kMaxMarkerBytes));
  if (!advertised) return;  // the marker is being written
  markers_.insert(file);
  publishers_.emplace(to_string({marker->participant, marker->publisher}), advertised->name);
}

// If the participant cannot be reached, or its backlog is full, the next scan tries again.
void Tracer::ask(const Id& participant) {
  auto asked = std::make_unique<Asked>();
  asked->about.participant = participant;
  if (!connect(*asked)) return;
  known_.insert(participant);
  asked_.push_back(std::move(asked));
}

// Returns false if the request cannot be sent now. If it can never be sent, the source is refused.
bool Tracer::connect(Asked& asked) {
  try {
    platform::Connection connection = domain_.connect(asked.about.participant);
    if (connection.outcome != platform::Connect::kDone) return false;
    asked.about.pid = platform::peer_credentials(connection.socket.get()).pid;
    asked.about.process = process_name(std::to_string(asked.about.pid));
    link::check_same_user(connection.socket.get());
    asked.channel.emplace(std::move(connection.socket), [](bool) {});
    asked.channel->send(question_);
    asked.ask_again = false;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) return false;
    asked.end(State::kRefused, error.what());
  }
  return true;
}

void Tracer::receive_from(Asked& asked) {
  if (!asked.channel) return;
  try {
    link::Channel::Received received;
    const auto state = asked.channel->receive(received);
    if (state == link::Channel::State::kMessage) on(asked, received);
    // Also reads the ring at the end: the process may have written records before it died.
    if (asked.ring && asked.records.size() < kMaxRecords) asked.ring->read(asked.records);
    if (state == link::Channel::State::kEnded)
      asked.end(asked.ring ? State::kEnded : State::kRefused,
                asked.ring ? "" : "it closed the connection");
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory || asked.ring)
      return asked.end(State::kRefused, error.what());
    asked.channel.reset();
    asked.ask_again = true;
  }
}

void Tracer::on(Asked& asked, link::Channel::Received& received) {
  using link::ControlType;
  if (received.header.type == ControlType::kRefused) {
    const auto refused = received.as<link::Refused>();
    asked.ask_again = link::code_of(refused.code) == Code::kOutOfMemory;
    return asked.end(State::kRefused, link::as_reason(refused.text));
  }
  if (received.header.type != ControlType::kTraced || asked.ring)
    throw link::unexpected_message(received.header.type);
  if (const auto layout = received.as<link::Traced>().layout; layout != link::kTraceLayout)
    throw Error(Code::kVersionMismatch, "its ring has layout " + std::to_string(layout) +
                                            ", this process reads " +
                                            std::to_string(link::kTraceLayout));
  asked.ring.emplace(received.take_fd());
  asked.about.state = State::kTraced;
}

std::vector<Tracer::Source> Tracer::sources() const {
  std::vector<Source> sources;
  for (const auto& asked : asked_) {
    Source source = asked->about;
    if (asked->ring) {
      source.overwritten = asked->ring->overwritten();
      source.incomplete = asked->ring->incomplete();
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<link::TraceRecord> Tracer::take(std::size_t source) {
  return std::exchange(asked_.at(source)->records, {});
}

}  // namespace tensorbus::bus
