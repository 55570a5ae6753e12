#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tensorbus/values/id.hpp>

#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// A request to another participant. While one of the two processes has no room for the connection,
// the request is not handled, and is sent again. Exists until the reply. On the event loop only.
class PatientRequest : public std::enable_shared_from_this<PatientRequest> {
 public:
  // Time for which a request is sent again if its call has no time-out.
  static constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(5);
  // Returns the time for which a request is sent again if this condition ends its call.
  static std::chrono::nanoseconds patience_of(const platform::StopCondition& stop) {
    constexpr auto kForever = std::chrono::nanoseconds::max();
    const auto left = stop.remaining(kForever);
    return left == kForever ? kPatience : left;
  }

  // Sends the request, with this on_answer for its reply.
  using Send = std::function<void(const std::shared_ptr<PeerSession>&, PeerSession::OnAnswer)>;

  // Calls `on_answer` once, with the reply or an Error: kOutOfMemory if there is no room within
  // `patience` (zero: at the first attempt), kClosed with the text `absent` if the participant is
  // dead. Throws nothing but std::bad_alloc.
  static std::shared_ptr<PatientRequest> start(ParticipantContext& context, const Id& to,
                                               std::chrono::nanoseconds patience, Send send,
                                               PeerSession::OnAnswer on_answer, std::string absent);
  // Called when the caller no longer waits. Afterwards the request is not sent any more: it ends at
  // once between two attempts, and else when the attempt fails or could send it. It ends with
  // kOutOfMemory if the participant has refused the last attempt; else with Reply::kTimedOut.
  void give_up();

 private:
  using Clock = std::chrono::steady_clock;

  PatientRequest(ParticipantContext& context, const Id& to, Send send,
                 PeerSession::OnAnswer on_answer, std::string absent)
      : context_(context),
        to_(to),
        send_(std::move(send)),
        on_answer_(std::move(on_answer)),
        absent_(std::move(absent)) {}

  void attempt();
  void try_again(const Error& why);
  void go_on();
  void end_given_up();
  void fail(Error error);

  ParticipantContext& context_;
  const Id to_;
  const Send send_;
  PeerSession::OnAnswer on_answer_;  // empty after the call
  const std::string absent_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point until_;
  Clock::time_point attempted_{};        // start of the last attempt
  std::chrono::milliseconds pause_{20};  // before the next attempt
  bool refused_ = false;                 // the last attempt failed because there was no room
  bool pausing_ = false;                 // until go_on() is called
  bool given_up_ = false;
};

}  // namespace tensorbus::bus
