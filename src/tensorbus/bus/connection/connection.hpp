#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/link/wire/channel.hpp"

namespace tensorbus::bus {

// One end of a connection: passes the peer's messages to a handler, and reports the end once. Used
// only on the event loop.
class Connection {
 public:
  using OnMessage = std::function<void(link::Channel::Received&)>;
  // `why` is empty for an orderly end or a death, else it describes the peer's error.
  using OnEnd = std::function<void(const std::string& why)>;

  // Both are called on the event loop; on_end is called at most once, and last. An Error that
  // on_message throws ends the connection. If on_message meets a limit (Error(kOutOfMemory),
  // std::bad_alloc), it is called again later with the same message, until it succeeds; other
  // messages wait. After the peer has hung up, this is repeated only for about a second.
  Connection(EventLoop& loop, platform::Fd socket, OnMessage on_message, OnEnd on_end);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::shared_ptr<link::Channel>& channel() const noexcept { return channel_; }
  // Stops reading from the peer while messages to the peer wait in the channel. Only for the side
  // that replies: if both sides did this, each could wait for the other.
  void listen_when_handled();
  // Also watches a pidfd for the peer's death. The caller owns the descriptor.
  void watch_death(int pidfd);
  // Returns the limit that prevents the handling of the first unread message; empty if none does.
  const std::string& shortage() const noexcept { return shortage_; }
  // Stops reading; the socket stays open while the channel is referenced.
  void close() noexcept;

 private:
  enum class Cause { kReady, kDeath };
  void on_ready(Cause cause);
  // Returns true if the connection is over.
  bool handle_messages(Cause cause);
  bool may_try_again(Cause cause) noexcept;

  EventLoop& loop_;
  const OnMessage on_message_;
  const OnEnd on_end_;
  std::shared_ptr<link::Channel> channel_;
  EventLoop::Tag socket_tag_ = 0;
  std::optional<EventLoop::Tag> death_tag_;
  int pidfd_ = -1;
  link::Channel::Received received_;
  bool unhandled_ = false;  // received_ was not handled yet, because of a limit
  int tries_ = 0;           // attempts to handle it since the peer hung up
  std::string shortage_;
  bool paused_ = false;  // reads nothing until the channel has sent its queue
  bool closed_ = false;
};

}  // namespace tensorbus::bus
