#pragma once

#include "tensorbus/bus/queue/queue_server.hpp"
#include "tensorbus/bus/queue/reoffer.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

// Returns this participant's end of its connection with itself, which was opened before. Null if
// the connection has ended in the meantime.
inline QueueRequests::Client own_session(const ParticipantContext& context) {
  const auto found = std::make_shared<QueueRequests::Client>();
  try {
    context.reach(context.self, [found](const auto& session) { *found = session; });
  } catch (const Error&) {  // it could not be reopened
  }
  return *found;
}

// Sends the replies of a queue's table to its clients.
struct QueueServer::Port {
  ParticipantContext& context;
  memory::Grant grant;
  using Request = Table::Request;

  void offer(const Request& to, const LentRef& item, std::uint64_t number) const {
    platform::with_memory_errors([&] {
      if (const auto here = own_end(to); here && item->is_mapped())
        return here->answer_here({to.number, item, number});
      const Reoffer named = reoffer(context, item, grant);
      to.client->lend(to.number, named.entry, named.issued, grant, number);
    });
  }
  // Returns this participant's end of its connection with itself if the client is the other end.
  Client own_end(const Request& to) const {
    const link::Channel& channel = *to.client->peer_memory()->channel;
    if (!channel.is_loop_back()) return nullptr;
    Client found = own_session(context);
    return found && channel.is_joined_with(*found->peer_memory()->channel) ? found : nullptr;
  }
  void done(const Request& to) const { to.client->reply({.request = to.number}); }
  void timed_out(const Request& to) const {
    to.client->reply({.request = to.number, .refused = link::Reply::kTimedOut});
  }
  void shut_down(const Request& to) const {
    to.client->reply({.request = to.number, .refused = link::Reply::kShutDown});
  }
  void deny(const Request& to, const Error& why) const { to.client->deny(to.number, why); }
  Table::Clock::time_point now() const noexcept { return Table::Clock::now(); }
};

}  // namespace tensorbus::bus
