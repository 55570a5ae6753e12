#pragma once

// Queues (docs/internals/protocol.md, section 7), for both connections: the messages of a raw
// client or server, this participant's server, and this participant's client.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fuzz/peer_talk.hpp"
#include "fuzz/wild_descriptor.hpp"
#include "tensorbus/bus/queue/mirror_server.hpp"
#include "tensorbus/bus/queue/queue_server.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::fuzz {

// Returns a lent sample, read as a waiting thread reads it; empty if it cannot be read.
inline std::optional<bus::Sample> read_now(const bus::LentRef& held, Access access) {
  bus::Sample sample;
  try {
    const auto read = bus::SampleData::read(sample, *held, {.access = access});
    if (read == bus::SampleData::Read::kDone) return sample;
  } catch (const Error&) {
  }
  return std::nullopt;
}

// A queue and a mirror of this participant, for one input. The queue is full with two items, and
// has `redeliver`.
class ServedOnce {
 public:
  explicit ServedOnce(World& world)
      : server_(*world.context.queues),
        name_(server_.make({.maxsize = 2, .redeliver = true})),
        mirror_(server_.make_mirror({.redeliver = true}, events_)) {}
  ~ServedOnce() {
    server_.close(name_.number);
    server_.close(mirror_.name.number);
  }
  ServedOnce(const ServedOnce&) = delete;
  ServedOnce& operator=(const ServedOnce&) = delete;

  const link::QueueName& name() const { return name_; }
  const link::QueueName& mirror() const { return mirror_.name; }
  // The home of the mirror sends an item, and replies to the oldest request.
  void answer() {
    mirror_.server->offer(++tag_, {});
    if (const auto event = events_->pop())
      mirror_.server->answer(event->value, Outcome::kDone, {1, 2, 3, 4});
    for (const std::uint64_t tag : mirror_.server->surplus()) mirror_.server->withdraw(tag);
  }

 private:
  bus::QueueRequests& server_;
  const std::shared_ptr<bus::MirrorEvents> events_ = std::make_shared<bus::MirrorEvents>();
  const link::QueueName name_;
  const bus::MadeMirror mirror_;
  std::uint64_t tag_ = 0;
};

inline std::uint64_t wild_mark(Input& input) { return input.byte() < 0xc0 ? 0 : input.number(); }

// Returns a nearly valid sample, in memory of the sender or of other owners.
inline link::Lent wild_lent(Input& input) {
  link::Lent lent;
  lent.request = input.below(4);
  lent.token = input.below(8);
  const std::vector<std::byte> descriptor = wild_descriptor(input, true);
  lent.length = static_cast<std::uint32_t>(descriptor.size());
  lent.segment = descriptor.size() <= link::kInlineBytes ? 0xffffffff : kWildSegments[0];
  if (input.byte() >= 0xe0) {
    lent.length = static_cast<std::uint32_t>(input.number());
    lent.segment = kWildSegments[input.below(4)];
    lent.offset = input.number();
  }
  lent.inline_bytes.assign(text_of(descriptor));
  lent.mark = wild_mark(input);
  return lent;
}

// Sends a request to this participant's server, or the reply of a server.
inline void say_queue(PeerTalk& talk, ServedOnce& hosted, Input& input) {
  const std::uint32_t what = input.below(9);
  const std::uint32_t request = input.below(8);
  link::QueueName queue = hosted.name();
  const std::uint8_t which = input.byte();
  if (which >= 0xe0) {
    queue.number = input.number();
  } else if (which >= 0x90) {
    queue = hosted.mirror();
    hosted.answer();
  }
  if (input.byte() >= 0xf0) queue.key = input.number();
  switch (what) {
    case 0:
    case 1: {
      return talk.say(link::Put{request, queue, input.below(4), wild_lent(input)}, input);
    }
    case 2:
    case 3:
      return talk.say(link::Get{request, queue, input.below(2)}, input);
    case 4:
      return talk.say(link::QueueCall{request, queue, input.below(9), input.below(4)}, input);
    case 8:
      return talk.say(link::Take{request, queue, input.below(3)}, input);
    case 5:
      return talk.say(link::Cancel{request, input.below(3)}, input);
    default: {
      link::Reply told{.request = request, .refused = input.below(3)};
      told.values[0] = input.number();
      return talk.say(told, input);
    }
  }
}

// This participant's client of a queue of the peer. Each request gets one reply of the right kind.
class Queueing {
 public:
  Queueing(World& world, std::shared_ptr<bus::PeerSession> session)
      : world_(world), session_(std::move(session)) {}

  void ask(Input& input) {
    const std::uint32_t what = input.below(4);
    const std::uint32_t argument = input.below(5);
    ++asked_;
    switch (what) {
      case 0:
        last_ = session_->put(kQueue, argument & 1U, {}, nothing(), memory::Grant::kRead,
                              [this](bus::PeerSession::Answer& answer) { hear_told(answer); });
        return;
      case 1:
        last_ = session_->call(kQueue, static_cast<link::QueueVerb>(argument), argument,
                               [this](bus::PeerSession::Answer& answer) { hear_told(answer); });
        return;
      default:
        last_ = session_->get(kQueue, argument & 1U,
                              [this](bus::PeerSession::Answer& answer) { hear_item(answer); });
    }
  }
  void cancel() { session_->cancel(last_); }
  void let_go() { held_.clear(); }
  // Checks that each request has had one reply. Called when the connection has ended.
  void require_answers() const { check(answered_ == asked_); }

 private:
  static constexpr link::QueueName kQueue{3, 4};

  static link::PublishedRef nothing() {
    return std::make_shared<link::PublishedSample>(OneOrMany<memory::BlockRef>());
  }
  void answered() { check(++answered_ <= asked_); }
  void hear_told(const bus::PeerSession::Answer& answer) {
    check(std::holds_alternative<link::Reply>(answer) || std::holds_alternative<Error>(answer));
    answered();
  }
  void hear_item(const bus::PeerSession::Answer& answer) {
    const auto* lent = std::get_if<link::Lent>(&answer);
    if (lent == nullptr) return hear_told(answer);
    bus::acquire_leases(world_.context, session_, *lent, memory::Grant::kRead,
                        {[this](const bus::LentRef& held) {
                           if (auto sample = read_now(held, Access::kRead))
                             held_.push_back(*std::move(sample));
                           answered();
                         },
                         [this](const Error&) { answered(); }});
  }

  World& world_;
  const std::shared_ptr<bus::PeerSession> session_;
  std::vector<bus::Sample> held_;
  std::uint32_t last_ = 0;  // the last request
  int asked_ = 0;
  int answered_ = 0;
};

}  // namespace tensorbus::fuzz
