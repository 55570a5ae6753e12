#include "tensorbus/bus/owner_connection.hpp"

#include <new>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxLinks = 65536;

platform::Fd of_same_user(platform::Fd socket) {
  link::check_same_user(socket.get());
  return socket;
}

platform::Fd take_event(link::Channel::Received& received) {
  platform::Fd event = received.take_fd();
  if (!platform::is_event(event.get()))
    throw Error(Code::kProtocol, "eventfd: the descriptor is something else");
  platform::make_non_blocking(event.get());
  return event;
}

}  // namespace

OwnerConnection::OwnerConnection(Surroundings& surroundings, platform::Fd socket,
                                 FindPublisher find, OnEnd on_end)
    : surroundings_(surroundings),
      find_publisher_(std::move(find)),
      on_end_(std::move(on_end)),
      conversation_(
          surroundings.service, of_same_user(std::move(socket)),
          [this](link::Channel::Received& received) { on_message(received); },
          [this](const std::string& why) { on_end_(*this, why); }),
      segments_(
          std::make_shared<link::SegmentSender>(conversation_.channel(), surroundings.arena)) {}

void OwnerConnection::end() {
  ended_ = true;
  conversation_.close();
  for (auto& [number, link] : std::exchange(links_, {})) link.publisher->end_link(link.link);
}

void OwnerConnection::tell_ended() {
  for (auto& [number, link] : links_) {
    if (link.told_ended || !link.publisher->closed()) continue;
    conversation_.channel()->send(link::Ended{number});
    link.told_ended = true;
  }
}

void OwnerConnection::tell_retired(std::uint32_t segment) { segments_->retire(segment); }

void OwnerConnection::on_message(link::Channel::Received& received) {
  if (!greeted_) return greet(received);
  switch (received.header.type) {
    case link::ControlType::kSubscribe:
      return subscribe(received);
    case link::ControlType::kUnsubscribe: {
      const auto found = links_.find(received.as<link::Unsubscribe>().number);
      if (found == links_.end()) return;  // its refusal is under way
      return found->second.publisher->stop_link(found->second.link);
    }
    case link::ControlType::kDone: {
      const auto number = received.as<link::Done>().number;
      const auto found = links_.find(number);
      if (found == links_.end()) return;  // it was refused
      found->second.publisher->end_link(found->second.link);
      links_.erase(found);
      return;
    }
    case link::ControlType::kEvent: {
      const auto number = received.as<link::Event>().number;
      platform::Fd event = take_event(received);
      const auto found = links_.find(number);
      if (found != links_.end())
        found->second.publisher->set_event(found->second.link, std::move(event));
      return;
    }
    default:
      throw Error(Code::kProtocol, "unexpected message of type " +
                                       std::to_string(static_cast<int>(received.header.type)));
  }
}

void OwnerConnection::greet(link::Channel::Received& received) {
  try {
    if (!peer_) peer_ = link::accept_hello(received);
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) refuse(0, error.code(), error.what());
    throw;
  }
  if (peer_->pidfd) conversation_.watch_death(peer_->pidfd.get());
  link::send_hello(*conversation_.channel(), surroundings_.self, *surroundings_.wake_page);
  greeted_ = true;
}

void OwnerConnection::subscribe(link::Channel::Received& received) {
  const auto asked = received.as<link::Subscribe>();
  if (links_.contains(asked.link) || asked.link == 0 || links_.size() >= kMaxLinks)
    throw Error(Code::kProtocol, "SUBSCRIBE.link: " + std::to_string(asked.link));
  const memory::Grant grant = link::grant_of(asked.writable, "SUBSCRIBE.writable");
  link::Waker waker(peer_->wake_page, asked.wake_slot);
  if (!received.datagram.fds.empty()) waker.set_event(take_event(received));
  const std::shared_ptr<PublisherCore> publisher = find_publisher_(asked.publisher);
  if (!publisher || publisher->topic() != asked.topic)
    return refuse(asked.link, Code::kClosed, "there is no such publisher any more");
  if (grant > publisher->most_granted())
    return refuse(
        asked.link, Code::kUnsupported,
        "the publisher is not shared, subscribers can only read its memory: make it shared "
        "(shared=True), or subscribe with access read or private");
  // What takes memory here comes before the link, or refuses it: never after the borrower knows.
  auto no_memory = link::Channel::prepare(link::Refused{
      asked.link, static_cast<std::uint32_t>(Code::kOutOfMemory), "the publisher has no memory"});
  const auto entry = links_.emplace(asked.link, Link{publisher, nullptr}).first;
  try {
    const auto announce = [&](const PublisherCore::Adopted& adopted) {
      std::vector<platform::Fd> fds;
      fds.push_back(platform::duplicate(adopted.link->segment().memfd().get()));
      const link::Geometry geometry = adopted.link->segment().geometry();
      conversation_.channel()->send(link::Accepted{.link = asked.link,
                                                   .slots = geometry.slots,
                                                   .returns = geometry.returns,
                                                   .max_held = adopted.link->limits().max_held,
                                                   .wake_slot = publisher->wake_slot(),
                                                   .reliable = publisher->options().reliable,
                                                   .next_sequence = adopted.next_sequence},
                                    std::move(fds));
      adopted.link->close_descriptor();
      platform::step("accepted.sent");
    };
    entry->second.link =
        publisher
            ->adopt({asked.depth, asked.max_held}, std::move(waker), segments_, grant, announce)
            .link;
    if (entry->second.link) return;
    links_.erase(entry);
    refuse(asked.link, Code::kClosed, "the publisher is closed");
  } catch (const Error& error) {
    // No memory or descriptors for a link: our fault, not the peer's.
    links_.erase(asked.link);
    refuse(asked.link, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    links_.erase(asked.link);
    conversation_.channel()->send(std::move(no_memory));
  }
}

void OwnerConnection::refuse(std::uint32_t link, Code code, const std::string& text) {
  conversation_.channel()->send(
      link::Refused{link, static_cast<std::uint32_t>(code), text.substr(0, 1024)});
}

}  // namespace tensorbus::bus
