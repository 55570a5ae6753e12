#include "tensorbus/bus/connection/inbound_connection.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "tensorbus/bus/trace/tracing.hpp"
#include "tensorbus/link/wire/dispatch.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxLinks = 65536;
constexpr std::size_t kMaxText = 3000;  // bytes of a refusal

// Returns the reason why the subscriber cannot read the published messages; empty if it can.
std::optional<std::string> mismatch(const link::Subscribe& asked, const MessageType& published) {
  if (asked.fingerprint == 0 || published.is_any() || asked.fingerprint == published.fingerprint())
    return std::nullopt;
  try {
    const MessageType expected(asked.type);
    if (std::string why = expected.why_not(published); !why.empty()) return why;
    if (expected.fingerprint() == asked.fingerprint) return std::nullopt;
  } catch (const Error& error) {
    throw Error(Code::kProtocol, std::string("SUBSCRIBE.type: ") + error.what());
  }
  return asked.type + ": its fingerprint differs, and its definition is too long to be compared";
}

platform::Fd of_same_user(platform::Fd socket) {
  link::check_same_user(socket.get());
  return socket;
}

}  // namespace

InboundConnection::InboundConnection(ParticipantContext& context, platform::Fd socket,
                                     FindPublisher find, OnEnd on_end)
    : context_(context),
      find_publisher_(std::move(find)),
      on_end_(std::move(on_end)),
      account_(context.peers->account_of(socket.get())),
      charge_(account_.take(link::kConnectionCost)),
      connection_(
          context.loop, of_same_user(std::move(socket)),
          [this](link::Channel::Received& received) {
            on_message(received);
            connection_.listen_when_handled();
          },
          [this](const std::string& why) { on_end_(*this, why); }),
      segments_(std::make_shared<link::SegmentSender>(connection_.channel(), context.arena,
                                                      context.device_memory)),
      peer_memory_(std::make_shared<link::PeerMemory>()),
      session_(std::make_shared<PeerSession>(context, peer_memory_, segments_)) {
  peer_memory_->channel = connection_.channel();
  peer_memory_->of_this_process = account_.is_this_process();
  peer_memory_->pay_from(account_);
  peer_memory_->connection = std::move(charge_);
  segments_->pay_from(account_);
  session_->find_issued_by(
      [this](std::uint32_t link, std::uint64_t token) { return issued(link, token); });
}

void InboundConnection::turn_away(const std::string& why) noexcept {
  link::turn_away(connection_.channel()->fd(), why);
}

void InboundConnection::stop() {
  if (stopped_) return;
  stopped_ = true;
  connection_.close();
  if (std::exchange(traced_, Traced::kNot) == Traced::kOn) context_.tracing->stop();
  session_->end("");
  session_->find_issued_by(nullptr);
  peer_memory_->imported.owner_hung_up(peer_memory_->pidfd != nullptr);
  segments_->peer_hung_up();
}

void InboundConnection::hang_up(const std::string& why) {
  if (!why.empty() && !stopped_)
    context_.log.write(platform::LogLevel::kError, {}, account_.pid(),
                       {"ended the connection from it: ", why});
  stop();
  if (why.empty() && lineage_ && !lineage_->ended() && stop_links()) return;
  end();
}

void InboundConnection::end() {
  ended_ = true;
  stop();
  session_->take_back();
  while (!links_.empty()) end_link(links_.begin());
}

// Takes back the samples that the borrower has not popped. Returns true if the borrower still has
// leases.
bool InboundConnection::stop_links() {
  bool held = session_->lends();
  for (const auto& [number, link] : links_)
    if (link.link) held = link.publisher->stop_link(link.link) || held;
  return held;
}

void InboundConnection::end_link(Links::iterator link) {
  if (link->second.link) link->second.publisher->end_link(link->second.link);
  links_.erase(link);
}

link::PublishedRef InboundConnection::issued(std::uint32_t link, std::uint64_t token) const {
  const auto found = links_.find(link);
  if (found == links_.end() || !found->second.link) return nullptr;
  return found->second.publisher->issued(*found->second.link, token);
}

void InboundConnection::notify_ended() {
  if (stopped_) return;
  for (auto& [number, link] : links_) {
    if (!link.link) continue;
    if (link.notified == Link::Notified::kNothing &&
        link.publisher->gets_nothing_more(*link.link)) {
      const bool cut_off = link.link->is_cut_off();
      if (cut_off)
        context_.log.write(platform::LogLevel::kWarning, link.publisher->topic(), account_.pid(),
                           {"cut its subscriber off: publish() has waited for it longer than "
                            "lag_timeout"});
      else if (!link.publisher->closed())
        context_.log.write(platform::LogLevel::kError, link.publisher->topic(), account_.pid(),
                           {"ended its subscription, since it returned an invalid lease"});
      connection_.channel()->send(link::Ended{number, cut_off ? 1U : 0U});
      link.notified = cut_off ? Link::Notified::kCutOff : Link::Notified::kEnded;
    }
    if (link.notified == Link::Notified::kCutOff && link.publisher->closed()) {
      connection_.channel()->send(link::Ended{number, 0});
      link.notified = Link::Notified::kEnded;
    }
  }
}

void InboundConnection::send_retired(memory::SegmentId segment) {
  if (!stopped_) segments_->retire(segment);
}

void InboundConnection::on_message(link::Channel::Received& received) {
  if (inspection_) throw link::unexpected_message(received.header.type);
  if (!greeted_ && received.header.type == link::ControlType::kInspect) return inspect(received);
  if (traced_ != Traced::kNot) throw link::unexpected_message(received.header.type);
  if (!greeted_ && received.header.type == link::ControlType::kTrace) return trace(received);
  if (!greeted_) return greet(received);
  if (session_->on_memory(received) || session_->on_message(received)) return;
  if (!link::dispatch<link::TakenBy::kInbound>(
          received, [this](auto&&... parts) { on(std::forward<decltype(parts)>(parts)...); }))
    throw link::unexpected_message(received.header.type);
}

void InboundConnection::on(const link::Unsubscribe& left) {
  const auto found = links_.find(left.number);
  if (found == links_.end()) return;  // the link was refused
  (void)found->second.publisher->stop_link(found->second.link);
}

void InboundConnection::on(const link::Done& done) {
  const auto found = links_.find(done.number);
  if (found != links_.end()) end_link(found);  // else the link was refused
}

// Returns an empty result if there is no room. Without a notifier, the waiting side is checked from
// time to time.
std::optional<memory::PeerCharge> InboundConnection::charge_for_notifier() const {
  try {
    return account_.take({.descriptors = 1});
  } catch (const memory::PeerLimit&) {
    return std::nullopt;
  }
}

void InboundConnection::on(const link::Event& event, platform::Fd notifier) {
  platform::require_notifier(notifier);
  const auto found = links_.find(event.number);
  if (found == links_.end()) return;
  found->second.notifier = charge_for_notifier();
  if (found->second.notifier)
    found->second.publisher->set_notifier(found->second.link, std::move(notifier));
}

void InboundConnection::greet(link::Channel::Received& received) {
  try {
    if (!peer_) peer_ = link::accept_hello(received);
    account_.require_descriptors(0);  // checked again, because HELLO brought descriptors
    session_->know(peer_->id);
  } catch (const memory::PeerLimit& limit) {
    context_.log.write(platform::LogLevel::kWarning, {}, account_.pid(),
                       {"refused its connection: ", limit.what()});
    refuse(0, limit.code(), limit.what());
    throw Error(Code::kClosed, "");  // ends the connection; the peer made no error
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) refuse(0, error.code(), error.what());
    throw;
  }
  if (peer_->pidfd) {
    peer_memory_->pidfd = std::make_shared<const platform::Fd>(std::move(peer_->pidfd));
    segments_->set_peer(peer_memory_->pidfd);
  }
  if (peer_memory_->pidfd) connection_.watch_death(peer_memory_->pidfd->get());
  if (peer_->lineage) {
    lineage_.emplace(context_.loop, platform::duplicate(peer_->lineage.get()), [this] {
      if (stopped_ && !ended_) on_end_(*this, "");
    });
    peer_->lineage.reset();
  }
  link::send_hello(*connection_.channel(), context_.self, *context_.wake_page,
                   platform::own_lineage());
  greeted_ = true;
}

// Accepts any version of the protocol: a report describes itself. The peer is charged for the
// report until it hangs up, which it does after it has read the report.
void InboundConnection::inspect(link::Channel::Received& received) {
  received.require_fds(0, 0);
  (void)received.as<link::Inspect>();
  const std::vector<std::byte> report = context_.report();
  try {
    if (report.size() > kMaxReportBytes)
      throw memory::PeerLimit("the report has " + std::to_string(report.size()) +
                              " bytes; at most " + std::to_string(kMaxReportBytes) +
                              " are possible");
    inspection_ = account_.take({.memory_bytes = report.size() + platform::page_bytes()});
  } catch (const memory::PeerLimit& limit) {
    refuse(0, limit.code(), limit.what());
    throw Error(Code::kClosed, limit.what());
  }
  try {
    std::vector<platform::Fd> fds;
    fds.push_back(platform::sealed_copy("tensorbus-inspection", report));
    connection_.channel()->send(link::Inspected{report.size()}, std::move(fds));
  } catch (...) {
    inspection_.reset();  // the report is made again
    throw;
  }
}

void InboundConnection::add_lent(LentReport& sum, std::uint64_t wall_ns) const {
  session_->add_lent(sum);
  for (const auto& [number, link] : links_) {
    if (!link.link) continue;
    const link::HeldSamples held = link.publisher->held_samples(*link.link);
    sum.leases += held.leases;
    sum.bytes += held.bytes;
    sum.oldest = std::max(sum.oldest, age_of(held, wall_ns));
  }
}

// The tracer is charged for the ring, even while samples keep the ring after the end of the
// connection. Tracing goes on until the connection ends (stop()).
void InboundConnection::trace(link::Channel::Received& received) {
  received.require_fds(0, 0);
  if (received.header.version != link::kProtocolVersion)
    return refuse_tracer(Code::kVersionMismatch, "the tracer speaks protocol version " +
                                                     std::to_string(received.header.version) +
                                                     ", this process version " +
                                                     std::to_string(link::kProtocolVersion));
  const auto asked = received.as<link::Trace>();
  if (!context_.tracing) return refuse_tracer(Code::kUnsupported, "it has no support for traces");
  try {
    const auto ring = context_.tracing->start(asked.topics, account_.pid(),
                                              account_.take({.descriptors = 1,
                                                             .mappings = 1,
                                                             .address_bytes = link::kTraceBytes,
                                                             .memory_bytes = link::kTraceBytes}));
    traced_ = Traced::kOn;
    std::vector<platform::Fd> fds;
    fds.push_back(ring->take_descriptor());
    connection_.channel()->send(link::Traced{}, std::move(fds));
  } catch (const Error& error) {
    if (traced_ == Traced::kOn) context_.tracing->stop();
    refuse_tracer(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    if (traced_ == Traced::kOn) context_.tracing->stop();
    refuse_tracer(Code::kOutOfMemory, "no memory for the ring of a trace");
  }
}

void InboundConnection::refuse_tracer(Code code, const std::string& why) {
  traced_ = Traced::kRefused;
  context_.log.write(platform::LogLevel::kWarning, {}, account_.pid(),
                     {"refused its request for a trace: ", why});
  refuse(0, code, why);
}

void InboundConnection::on(const link::Subscribe& asked, platform::Fd sender) {
  if (links_.contains(asked.link) || asked.link == 0 || links_.size() >= kMaxLinks)
    throw Error(Code::kProtocol, "SUBSCRIBE.link: " + std::to_string(asked.link));
  const memory::Grant grant = link::grant_of(asked.writable, "SUBSCRIBE.writable");
  link::Waker waker(peer_->wake_page, asked.wake_slot);
  std::optional<memory::PeerCharge> notifier;
  if (sender) {
    platform::require_notifier(sender);
    notifier = charge_for_notifier();
    if (notifier) waker.set_notifier(std::move(sender));
  }
  const std::shared_ptr<Sender> publisher = find_publisher_(asked.publisher);
  if (!publisher || publisher->topic() != asked.topic)
    return refuse(asked, Code::kClosed, "the publisher no longer exists");
  if (grant > publisher->max_grant())
    return refuse(
        asked, Code::kUnsupported,
        "the publisher is not shared, subscribers can only read its memory: make it shared "
        "(shared=True), or subscribe with access read or private");
  if (const auto why = mismatch(asked, publisher->options().type)) {
    const std::string& theirs = publisher->options().type.definition();
    return refuse(asked, Code::kTypeMismatch,
                  *why + "\nThe publisher's type:\n" + theirs.substr(0, link::kMaxDefinition));
  }
  const link::Borrower borrower{.grant = grant,
                                .reliable = asked.best_effort == 0,
                                .pid = static_cast<std::uint32_t>(account_.pid()),
                                .participant = peer_->id,
                                .node = asked.node.substr(0, link::kMaxNode)};
  const link::LinkLimits limits = publisher->limits_of({asked.depth, asked.max_held});
  memory::PeerCharge charge;
  try {
    charge = account_.take(link::OwnerLink::cost_of(limits));
  } catch (const memory::PeerLimit& limit) {
    return refuse(asked, limit.code(), limit.what());
  }
  // Prepares the refusal first: without memory for the link, there may be none for the message
  // either.
  auto no_memory = link::Channel::prepare(link::Refused{
      asked.link, static_cast<std::uint32_t>(Code::kOutOfMemory), "the publisher has no memory"});
  const auto entry =
      links_.emplace(asked.link, Link{publisher, nullptr, std::move(charge), std::move(notifier)})
          .first;
  try {
    platform::Notifier room;  // without one, a polled publisher checks from time to time
    if (publisher->polled() && borrower.reliable &&
        (entry->second.room_listener = charge_for_notifier()))
      room = platform::make_notifier();
    const auto announce = [&](const Sender::Adopted& adopted) {
      std::vector<platform::Fd> fds;
      fds.push_back(platform::duplicate(adopted.link->segment().memfd().get()));
      if (room.sender) fds.push_back(std::move(room.sender));
      const link::Geometry geometry = adopted.link->segment().geometry();
      connection_.channel()->send(link::Accepted{.link = asked.link,
                                                 .slots = geometry.slots,
                                                 .returns = geometry.returns,
                                                 .max_held = adopted.link->limits().max_held,
                                                 .wake_slot = publisher->wake_slot(),
                                                 .reliable = adopted.link->borrower().reliable,
                                                 .next_sequence = adopted.next_sequence,
                                                 .machine = publisher->origin().machine,
                                                 .publisher = publisher->origin().publisher},
                                  std::move(fds));
      adopted.link->close_descriptor();
      platform::kill_point("accepted.sent");
    };
    entry->second.link =
        publisher->adopt(limits, std::move(waker), segments_, borrower, asked.resume_at, announce)
            .link;
    if (entry->second.link) return publisher->listen(entry->second.link, std::move(room.listener));
    end_link(entry);
    refuse(asked, Code::kClosed, "the publisher is closed");
  } catch (const Error& error) {
    // Memory or descriptors are short: a limit of this participant, not an error of the peer.
    end_link(entry);
    refuse(asked, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end_link(entry);
    connection_.channel()->send(std::move(no_memory));
  }
}

// Logs no line for a publisher that closes during the request.
void InboundConnection::refuse(const link::Subscribe& asked, Code code, const std::string& text) {
  if (code != Code::kClosed)
    context_.log.write(platform::LogLevel::kWarning, asked.topic, account_.pid(),
                       {"refused its subscriber: ", text});
  refuse(asked.link, code, text);
}

void InboundConnection::refuse(std::uint32_t link, Code code, const std::string& text) {
  connection_.channel()->send(
      link::Refused{link, static_cast<std::uint32_t>(code), text.substr(0, kMaxText)});
}

}  // namespace tensorbus::bus
