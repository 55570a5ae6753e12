#include "tensorbus/bus/connection/outbound_connections.hpp"

#include <algorithm>
#include <utility>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;  // after a full backlog

}  // namespace

OutboundConnections::OutboundConnections(ParticipantContext& context, const Domain& domain,
                                         StaleFiles& stale_files, EventLoop::Task& look_again,
                                         OnLost on_lost)
    : context_(context),
      domain_(domain),
      stale_files_(stale_files),
      look_again_(look_again),
      dropping_departed_(context.loop.add_task([this] { drop_departed(); })),
      on_lost_(std::move(on_lost)) {}

OutboundConnections::Found OutboundConnections::find_or_connect(const Id& owner) {
  const auto found = outbound_.find(owner);
  if (found != outbound_.end()) return {found->second.get()};
  if (owner == context_.self)
    if (OutboundConnection* const own = connect_to_self()) return {own};
  if (stale_files_.is_dead(owner)) {
    // The participant may listen again before the next check.
    context_.loop.schedule(look_again_, kRetryDelay);
    return {nullptr, true};
  }
  require_descriptors();
  try {
    platform::Connection connection = domain_.connect(owner);
    if (connection.outcome == platform::Connect::kDone)
      return {adopt(owner, std::move(connection.socket))};
    if (connection.outcome == platform::Connect::kDead) {
      stale_files_.add_dead(owner);
      return {nullptr, true};
    }
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // The socket belongs to another user: try again, as after a full backlog.
  }
  context_.loop.schedule(look_again_, kRetryDelay);
  return {};
}

// Called before a connection is opened. Throws unless there are descriptors for its socket and for
// every HELLO that has not come yet: an owner that has replied may have handled requests, and the
// connection must not fail because descriptors are short.
void OutboundConnections::require_descriptors() const {
  constexpr std::size_t kOfHello = 2;
  const auto waiting = static_cast<std::size_t>(
      std::ranges::count_if(outbound_, [](const auto& item) { return !item.second->greeted(); }));
  context_.peers->require_descriptors(1 + kOfHello * (waiting + 1));
}

OutboundConnection* OutboundConnections::connect_to_self() {
  platform::SocketPair ends = platform::make_socket_pair();
  const auto theirs = context_.accept_own(std::move(ends.second));
  if (!theirs) return nullptr;
  OutboundConnection* const own = adopt(context_.self, std::move(ends.first));
  link::Channel::loop_back(own->session()->peer_memory()->channel, theirs);
  return own;
}

OutboundConnection* OutboundConnections::adopt(const Id& owner, platform::Fd socket) {
  auto made = std::make_shared<OutboundConnection>(
      context_, owner, std::move(socket),
      [this](OutboundConnection& gone, const std::string& why) {
        // The second call comes when its lineage has ended.
        if (gone.ended()) return context_.loop.schedule(dropping_departed_);
        forget(gone, why);
      },
      [this, owner](const std::shared_ptr<Receiver>& subscriber, std::uint32_t publisher) {
        on_lost_(subscriber, owner, publisher);
      });
  return outbound_.emplace(owner, std::move(made)).first->second.get();
}

void OutboundConnections::reach(const Id& owner, const ParticipantContext::OnReached& on_reached) {
  const Found found = find_or_connect(owner);
  if (found.connection != nullptr) return on_reached(found.connection->session());
  if (found.dead) return on_reached(nullptr);
  context_.loop.post_later(kRetryDelay, [this, owner, on_reached] { reach(owner, on_reached); });
}

std::vector<std::shared_ptr<link::PeerMemory>> OutboundConnections::orphaned_memory_of(
    const Id& owner) {
  std::vector<std::shared_ptr<link::PeerMemory>> left;
  const auto [begin, end] = orphans_.equal_range(owner);
  for (auto at = begin; at != end; ++at)
    if (auto memory = at->second.lock()) left.push_back(std::move(memory));
  if (const auto found = outbound_.find(owner); found != outbound_.end())
    left.push_back(found->second->session()->peer_memory());
  // Checks the connections, because the end of one may not have been handled yet. A connection that
  // goes on belongs to a living participant, even if its socket file is gone.
  std::erase_if(left, [](const auto& memory) { return !memory->is_over(); });
  return left;
}

bool OutboundConnections::has_link(const std::shared_ptr<Receiver>& subscriber, const Id& owner,
                                   std::uint32_t publisher) const {
  const auto found = outbound_.find(owner);
  return found != outbound_.end() && found->second->has_link(subscriber, publisher);
}

void OutboundConnections::inherit(const Id& owner, const std::shared_ptr<link::PeerMemory>& left) {
  std::erase_if(orphans_, [&](const auto& item) {
    const auto known = item.second.lock();
    return !known || known == left;
  });
  orphans_.emplace(owner, left);
}

void OutboundConnections::forget(OutboundConnection& connection, const std::string& why) {
  connection.end(why);
  inherit(connection.owner(), connection.session()->peer_memory());
  // The connection is the caller. So it is only removed from the map here, and the task destroys
  // it.
  auto node = outbound_.extract(connection.owner());
  departed_.push_back(std::move(node.mapped()));
  if (!connection.turned_away()) stale_files_.suspect(connection.owner());
  context_.loop.schedule(dropping_departed_);
}

// Destroys the ended connections over which nothing is lent any more. The others wait for the end
// of their lineages.
void OutboundConnections::drop_departed() {
  context_.loop.schedule(look_again_);
  std::erase_if(departed_, [](const auto& connection) { return !connection->session()->lends(); });
}

void OutboundConnections::drop_idle() {
  std::erase_if(outbound_, [](const auto& item) {
    if (!item.second->idle()) return false;
    item.second->session()->peer_memory()->pinned->owner_gone();  // unpins unused blocks
    return true;
  });
}

void OutboundConnections::send_retired(memory::SegmentId segment) {
  for (const auto& [id, connection] : outbound_) connection->send_retired(segment);
}

std::vector<std::shared_ptr<PeerSession>> OutboundConnections::sessions() const {
  std::vector<std::shared_ptr<PeerSession>> all;
  for (const auto& [id, connection] : outbound_) all.push_back(connection->session());
  for (const auto& connection : departed_) all.push_back(connection->session());
  return all;
}

std::vector<std::pair<Id, std::shared_ptr<link::PeerMemory>>> OutboundConnections::memory() const {
  std::vector<std::pair<Id, std::shared_ptr<link::PeerMemory>>> all;
  for (const auto& [id, connection] : outbound_)
    all.emplace_back(id, connection->session()->peer_memory());
  for (const auto& [id, weak] : orphans_)
    if (auto memory = weak.lock()) all.emplace_back(id, std::move(memory));
  return all;
}

void OutboundConnections::end() {
  for (const auto& [id, connection] : outbound_) {
    connection->end("");
    PeerSession& session = *connection->session();
    if (session.hands_on())
      session.peer_memory()->returns_at_the_end.store(true, std::memory_order_relaxed);
    session.take_back();
  }
}

}  // namespace tensorbus::bus
