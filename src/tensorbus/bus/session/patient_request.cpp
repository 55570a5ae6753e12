#include "tensorbus/bus/session/patient_request.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLongestPause = 1s;
// A dying process hangs up before its socket refuses connections.
constexpr auto kUntilItIsDead = 1s;

}  // namespace

std::shared_ptr<PatientRequest> PatientRequest::start(ParticipantContext& context, const Id& to,
                                                      std::chrono::nanoseconds patience, Send send,
                                                      PeerSession::OnAnswer on_answer,
                                                      std::string absent) {
  const std::shared_ptr<PatientRequest> self(
      new PatientRequest(context, to, std::move(send), std::move(on_answer), std::move(absent)));
  const auto forever = Clock::time_point::max();
  self->until_ = patience < forever - self->began_ ? self->began_ + patience : forever;
  self->attempt();
  return self;
}

void PatientRequest::attempt() {
  attempted_ = Clock::now();
  try {
    context_.reach(to_, [self = shared_from_this()](const std::shared_ptr<PeerSession>& session) {
      if (!self->on_answer_) return;
      if (!session) return self->fail(Error(Code::kClosed, self->absent_));
      if (self->given_up_) return self->end_given_up();
      self->send_(session, [self, session](PeerSession::Answer& answer) {
        const auto* const error = std::get_if<Error>(&answer);
        if (error != nullptr && session->took_nothing()) return self->try_again(*error);
        if (self->on_answer_) std::exchange(self->on_answer_, {})(answer);
      });
    });
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) return fail(error);
    try_again(error);
  }
}

void PatientRequest::try_again(const Error& why) {
  if (!on_answer_) return;
  refused_ = why.code() == Code::kOutOfMemory;
  if (given_up_) return end_given_up();
  const auto until = refused_ ? until_ : std::max(until_, began_ + kUntilItIsDead);
  // Gives up now if an attempt as long as the last one would end too late: the caller would not get
  // the reason.
  const auto now = Clock::now();
  const auto next_takes = refused_ ? now - attempted_ : Clock::duration::zero();
  if (now + pause_ + next_takes >= until)
    return fail(Error(Code::kOutOfMemory,
                      refused_ ? why.what()
                               : "the other process has no room for connections: it closes each "
                                 "one before it replies"));
  pausing_ = true;
  context_.loop.post_later(std::exchange(pause_, std::min(2 * pause_, kLongestPause)),
                           [self = shared_from_this()] { self->go_on(); });
}

void PatientRequest::go_on() {
  if (!std::exchange(pausing_, false)) return;
  try {
    attempt();
  } catch (const std::bad_alloc&) {  // the event loop calls this again
    pausing_ = true;
    throw;
  }
}

void PatientRequest::give_up() {
  given_up_ = true;
  if (std::exchange(pausing_, false)) end_given_up();
}

// A process that hung up has handled nothing, and may be dying: that is no shortage.
void PatientRequest::end_given_up() {
  if (refused_)
    return fail(
        Error(Code::kOutOfMemory, "the request was cancelled: there was no room to connect"));
  PeerSession::Answer answer = link::Reply{.refused = link::Reply::kTimedOut};
  if (on_answer_) std::exchange(on_answer_, {})(answer);
}

void PatientRequest::fail(Error error) {
  PeerSession::Answer answer = std::move(error);
  if (on_answer_) std::exchange(on_answer_, {})(answer);
}

}  // namespace tensorbus::bus
