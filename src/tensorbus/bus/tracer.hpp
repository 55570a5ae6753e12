#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tensorbus/values/id.hpp>
#include <vector>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/link/trace/trace_reader.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Traces the participants of a domain (docs/tracing.md). No call waits for another process. Used by
// one thread. When the tracer is destroyed, the traced processes stop writing.
class TENSORBUS_API Tracer {
 public:
  // `topics`: empty for all. Throws Error(kInvalidArgument) if their names do not fit into a
  // message, and like Participant.
  Tracer(const std::string& domain, const std::vector<std::string>& topics);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  enum class State : std::uint8_t {
    kAsked,    // no reply yet
    kTraced,   // its ring was received
    kRefused,  // the reason is `why`
    kEnded,    // was traced, and has ended
  };
  struct Source {
    Id participant;
    pid_t pid = 0;          // in the pid namespace of this process
    std::string process{};  // the name of its program; empty: not visible
    State state = State::kAsked;
    std::string why{};
    std::uint64_t overwritten = 0;  // records that were not read in time
    std::size_t incomplete = 0;     // records that were begun and not completed
  };

  // Requests traces from new participants, reads replies, and appends what was written since the
  // last call to the records of each source. Throws Error(kSystem) if the domain cannot be listed.
  void poll();
  // Returns all participants to which a request was sent so far, in the order of the requests.
  std::vector<Source> sources() const;
  // Returns the topics of the publishers seen so far, by name ("<participant>.<number>").
  const std::map<std::string, std::string>& topics() const noexcept { return publishers_; }
  // Takes the records of a source, given by its number in sources().
  std::vector<link::TraceRecord> take(std::size_t source);

 private:
  struct Asked;
  void look_around();
  void note_publisher(const std::string& marker);
  void ask(const Id& participant);
  bool connect(Asked& asked);
  static void receive_from(Asked& asked);
  static void on(Asked& asked, link::Channel::Received& received);

  const Domain domain_;
  const link::Trace question_;
  platform::DirectoryWatch watch_{domain_.watch()};
  std::chrono::steady_clock::time_point next_look_{};
  std::chrono::steady_clock::time_point next_retry_{};
  std::set<Id> known_;
  std::map<std::string, std::string> publishers_;
  std::set<std::string> markers_;  // the markers that were read
  std::vector<std::unique_ptr<Asked>> asked_;
};

}  // namespace tensorbus::bus
