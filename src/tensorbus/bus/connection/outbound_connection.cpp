#include "tensorbus/bus/connection/outbound_connection.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/link/wire/dispatch.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"

namespace tensorbus::bus {
OutboundConnection::OutboundConnection(ParticipantContext& context, const Id& owner,
                                       platform::Fd socket, OnEnd on_end, OnLost on_lost)
    : context_(context),
      owner_(owner),
      on_end_(std::move(on_end)),
      on_lost_(std::move(on_lost)),
      account_(context.peers->account_of(socket.get())),
      charge_(account_.take(link::kConnectionCost)),
      connection_(
          context.loop, std::move(socket),
          [this](link::Channel::Received& received) { on_message(received); },
          [this](const std::string& why) { on_end_(*this, why); }),
      peer_memory_(std::make_shared<link::PeerMemory>()),
      segments_(std::make_shared<link::SegmentSender>(connection_.channel(), context.arena,
                                                      context.device_memory)),
      session_(std::make_shared<PeerSession>(context, peer_memory_, segments_)) {
  link::check_same_user(connection_.channel()->fd());
  peer_memory_->channel = connection_.channel();
  peer_memory_->of_this_process = account_.is_this_process();
  peer_memory_->pay_from(account_);
  peer_memory_->connection = std::move(charge_);
  segments_->pay_from(account_);
  session_->know(owner_);
  link::send_hello(*connection_.channel(), context_.self, *context_.wake_page,
                   platform::own_lineage());
}

void OutboundConnection::subscribe(const std::shared_ptr<Receiver>& subscriber,
                                   std::uint32_t publisher) {
  auto source =
      std::make_shared<const link::Source>(link::Source{owner_, publisher, subscriber->topic()});
  const std::uint32_t number = next_link_++;
  auto link = std::make_shared<link::BorrowerLink>(number, std::move(source), peer_memory_,
                                                   subscriber->asks_for());
  if (!greeted_) wanted_.reserve(wanted_.size() + 1);
  context_.lent->add(link);
  links_.emplace(number, Link{subscriber, link});
  if (greeted_) {
    subscriber->add(std::move(link));
    platform::kill_point("subscribe.sent");
  } else {
    wanted_.push_back({subscriber, std::move(link)});
    subscriber->expect_link();
  }
}

void OutboundConnection::end(const std::string& why) {
  if (!why.empty())
    context_.log.write(
        turned_away() ? platform::LogLevel::kWarning : platform::LogLevel::kError, {},
        account_.pid(),
        {turned_away() ? "trying again later: " : "ended the connection to it: ", why});
  ended_ = true;
  connection_.close();
  // Because of a shortage, the owner's HELLO may be unread: the owner may have handled requests.
  const bool took_nothing =
      !greeted_ && (turned_away() || (why.empty() && connection_.shortage().empty()));
  session_->end(why, refusal_.value_or(Code::kClosed), took_nothing);
  if (!why.empty() || !lineage_ || lineage_->ended()) session_->take_back();
  peer_memory_->imported.owner_hung_up(peer_memory_->pidfd != nullptr);
  segments_->peer_hung_up();
  const std::string_view reason = why.empty() ? std::string_view("the publisher hung up") : why;
  for (const Wanted& wanted : std::exchange(wanted_, {})) {
    wanted.subscriber->refuse(wanted.link, Code::kClosed, reason);
    wanted.subscriber->expect_link_no_more();
    if (why.empty() || turned_away()) lost(wanted.subscriber, *wanted.link);
  }
  for (const auto& [number, weak] : std::exchange(links_, {})) {
    const auto subscriber = weak.subscriber.lock();
    const auto link = weak.link.lock();
    if (!subscriber || !link) continue;
    subscriber->end(link);
    if (why.empty()) lost(subscriber, *link);
  }
}

void OutboundConnection::log(platform::LogLevel level, const link::BorrowerLink& link,
                             std::initializer_list<std::string_view> text) noexcept {
  context_.log.write(level, link.source()->topic, account_.pid(), text);
}

void OutboundConnection::lost(const std::shared_ptr<Receiver>& subscriber,
                              const link::BorrowerLink& link) {
  if (on_lost_) on_lost_(subscriber, link.source()->publisher);
}

bool OutboundConnection::has_link(const std::shared_ptr<Receiver>& subscriber,
                                  std::uint32_t publisher) const {
  return std::ranges::any_of(links_, [&](const auto& item) {
    const auto link = item.second.link.lock();
    return link && link->source()->publisher == publisher &&
           item.second.subscriber.lock() == subscriber;
  });
}

bool OutboundConnection::idle() {
  // Removes subscribers that have closed: a stopped owner may never reply.
  std::erase_if(wanted_, [](const Wanted& wanted) { return wanted.subscriber->closed(); });
  std::erase_if(links_, [](const auto& item) { return item.second.link.expired(); });
  return links_.empty() && wanted_.empty() && !session_->used();
}

void OutboundConnection::on_message(link::Channel::Received& received) {
  if (!greeted_) return greet(received);
  if (session_->on_memory(received)) return segment_came();
  if (session_->on_message(received)) return;
  if (!link::dispatch<link::TakenBy::kOutbound>(
          received, [this](auto&&... parts) { on(std::forward<decltype(parts)>(parts)...); }))
    throw link::unexpected_message(received.header.type);
}

void OutboundConnection::on(const link::Refused& refused) {
  const auto [subscriber, link] = link_named(refused.link);
  if (!subscriber || !link) return;
  const Code code = link::code_of(refused.code);
  const std::string why = link::as_reason(refused.text);
  // Logs a type mismatch as information, since receive() throws it. Does not log that the publisher
  // has closed during the request.
  if (code != Code::kClosed)
    log(code == Code::kTypeMismatch ? platform::LogLevel::kInfo : platform::LogLevel::kWarning,
        *link, {"its publisher refused the subscriber: ", why});
  subscriber->refuse(link, code, why);
  if (code == Code::kOutOfMemory || code == Code::kSystem) lost(subscriber, *link);
}

void OutboundConnection::on(const link::Ended& ended) {
  const auto [subscriber, link] = link_named(ended.number);
  if (!subscriber || !link) return;
  if (ended.cut_off != 0)
    log(platform::LogLevel::kWarning, *link,
        {"its publisher cut the subscriber off after waiting for it longer than lag_timeout"});
  subscriber->end(link, ended.cut_off != 0);
}

void OutboundConnection::on(const link::Accepted& accepted, platform::Fd segment,
                            platform::Fd room_notifier) {
  if (room_notifier) platform::require_notifier(room_notifier);
  const auto [subscriber, link] = link_named(accepted.link);
  if (!subscriber || !link) return;
  try {
    subscriber->accept(link, accepted, std::move(segment), std::move(room_notifier));
    platform::kill_point("accepted.received");
  } catch (const memory::PeerLimit& limit) {
    log(platform::LogLevel::kWarning, *link, {"cannot use its publisher: ", limit.what()});
    subscriber->refuse(link, limit.code(), limit.what());
    lost(subscriber, *link);
  }
}

void OutboundConnection::segment_came() {
  for (const auto& [number, link] : links_)
    if (const auto subscriber = link.subscriber.lock()) subscriber->segment_came();
}

void OutboundConnection::greet(link::Channel::Received& received) {
  if (received.header.type == link::ControlType::kRefused) {
    const auto refused = received.as<link::Refused>();
    refusal_ = link::code_of(refused.code);
    throw Error(Code::kClosed, "process " + std::to_string(account_.pid()) +
                                   " refused the connection: " + link::as_reason(refused.text));
  }
  if (!peer_memory_->wake_page) know(received);  // else HELLO was read before a limit was met
  if (peer_memory_->pidfd) connection_.watch_death(peer_memory_->pidfd->get());
  for (; !wanted_.empty(); wanted_.erase(wanted_.begin())) {
    wanted_.front().subscriber->add(wanted_.front().link);
    wanted_.front().subscriber->expect_link_no_more();
    platform::kill_point("subscribe.sent");
  }
  greeted_ = true;
  session_->on_hello();
}

void OutboundConnection::know(link::Channel::Received& hello) {
  link::Peer peer = link::accept_hello(hello);
  if (peer.id != owner_)
    throw Error(Code::kProtocol,
                "HELLO.id: " + peer.id.hex() + " answers at the socket of " + owner_.hex());
  if (peer.lineage)
    lineage_.emplace(context_.loop, std::move(peer.lineage), [this] {
      if (!ended_) return;
      session_->take_back();
      on_end_(*this, "");
    });
  peer_memory_->wake_page = std::move(peer.wake_page);
  if (peer.pidfd) peer_memory_->pidfd = std::make_shared<const platform::Fd>(std::move(peer.pidfd));
  segments_->set_peer(peer_memory_->pidfd);
}

OutboundConnection::Wanted OutboundConnection::link_named(std::uint32_t number) const {
  const auto found = links_.find(number);
  if (found == links_.end()) return {};
  return {found->second.subscriber.lock(), found->second.link.lock()};
}

}  // namespace tensorbus::bus
