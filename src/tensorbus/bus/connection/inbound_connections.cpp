#include "tensorbus/bus/connection/inbound_connections.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::chrono::seconds kGreetingDelay{5};  // until a peer must have sent its first message

}  // namespace

InboundConnections::InboundConnections(ParticipantContext& context, StaleFiles& stale_files,
                                       InboundConnection::FindPublisher find_publisher)
    : context_(context),
      stale_files_(stale_files),
      find_publisher_(std::move(find_publisher)),
      dropping_ended_(context.loop.add_task([this] { drop_ended(); })),
      dropping_silent_(context.loop.add_task([this] { drop_silent(); })) {}

void InboundConnections::accept(const platform::Fd& listener) {
  while (newcomer_ || accept_next(listener)) {
    try {
      context_.peers->require_descriptors(0);
      adopt(platform::duplicate(newcomer_.get()));
    } catch (const Error& shortage) {  // adopt() throws no other Error
      turn_away(newcomer_, shortage);
    }
    newcomer_.reset();
  }
}

// Returns false if no connection waits. Throws if a connection waits that can be neither accepted
// nor refused.
bool InboundConnections::accept_next(const platform::Fd& listener) {
  while (true) {
    try {
      if (!reserve_) reserve_ = platform::make_event();
      newcomer_ = platform::accept_from(listener.get());
      return static_cast<bool>(newcomer_);
    } catch (const Error& shortage) {
      if (!reserve_) throw;
      reserve_.reset();
      platform::Fd peer = platform::accept_from(listener.get());
      if (!peer) {
        reserve_ = platform::make_event();
        return false;
      }
      turn_away(peer, shortage);
      // Turns the peer's descriptor into the reserve: if it were closed first, another thread could
      // take its number.
      if (::dup3(context_.wake_page->memfd().get(), peer.get(), O_CLOEXEC) >= 0)
        reserve_ = std::move(peer);
    }
  }
}

void InboundConnections::turn_away(const platform::Fd& peer, const Error& shortage) {
  context_.log.write(platform::LogLevel::kWarning, {}, platform::peer_credentials(peer.get()).pid,
                     {"refused its connection: ", shortage.what()});
  link::turn_away(peer.get(), shortage.what());
}

std::shared_ptr<link::Channel> InboundConnections::adopt(platform::Fd socket) {
  const pid_t pid = platform::peer_credentials(socket.get()).pid;
  try {
    connections_.push_back(std::make_unique<InboundConnection>(
        context_, std::move(socket), find_publisher_,
        [this](InboundConnection& connection, const std::string& why) {
          connection.hang_up(why);
          if (const auto source = connection.session()->source())
            stale_files_.suspect(source->participant);
          context_.loop.schedule(dropping_ended_);  // later: the connection itself is the caller
        }));
    context_.loop.schedule(dropping_silent_, kGreetingDelay);
    return connections_.back()->session()->peer_memory()->channel;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // The peer is a process of another user. Its socket is closed.
    context_.log.write(platform::LogLevel::kWarning, {}, pid,
                       {"refused its connection: ", error.what()});
  }
  return nullptr;
}

void InboundConnections::drop_ended() {
  std::erase_if(connections_, [](const auto& connection) { return connection->ended(); });
}

void InboundConnections::drop_silent() {
  const auto overdue = std::chrono::steady_clock::now() - kGreetingDelay;
  bool silent = false;
  std::erase_if(connections_, [&](const auto& connection) {
    if (connection->greeted()) return false;
    silent = silent || connection->since() > overdue;
    if (connection->since() > overdue) return false;
    const std::string& shortage = connection->shortage();
    const std::string_view why = "it sent no message for 5 s";
    context_.log.write(platform::LogLevel::kWarning, {}, connection->pid(),
                       {"refused its connection: ", shortage.empty() ? why : shortage});
    if (!shortage.empty()) connection->turn_away(shortage);
    return true;
  });
  if (silent) context_.loop.schedule(dropping_silent_, kGreetingDelay / 5);
}

void InboundConnections::notify_ended() {
  for (const auto& connection : connections_) connection->notify_ended();
}

void InboundConnections::send_retired(memory::SegmentId segment) {
  for (const auto& connection : connections_) connection->send_retired(segment);
}

void InboundConnections::end() {
  for (const auto& connection : connections_) connection->end();
}

}  // namespace tensorbus::bus
