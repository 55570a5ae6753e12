#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/link/wire/channel.hpp"

namespace tensorbus::bus {

// One end of a connection on the event loop: hands in what the peer says, and tells its end
// once.
class Connection {
 public:
  using OnMessage = std::function<void(link::Channel::Received&)>;
  // `why` is empty for an orderly end or a death, else says what the peer did wrong.
  using OnEnd = std::function<void(const std::string& why)>;

  // Both are called on the event loop, on_end at most once and as the last. An Error that
  // on_message throws ends the conversation; but when it meets a limit (Error(kOutOfMemory),
  // std::bad_alloc), it is handed the same message again later, and the next ones after it; of a
  // peer that has hung up, for about a second.
  Connection(EventLoop& loop, platform::Fd socket, OnMessage on_message, OnEnd on_end);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::shared_ptr<link::Channel>& channel() const noexcept { return channel_; }
  // Hears no more from the peer before it has read what it was told. For the side that answers:
  // were both to do so, they could wait for each other.
  void listen_when_heard();
  // Takes the peer's death from here as well as from the socket. The descriptor is the caller's.
  void watch_death(int pidfd);
  // Stops listening; the socket stays open while somebody holds the channel.
  void close() noexcept;

 private:
  enum class Cause { kReady, kDeath };
  void on_ready(Cause cause);
  // True: it is over.
  bool hear(Cause cause);
  bool may_try_again(Cause cause) noexcept;

  EventLoop& loop_;
  const OnMessage on_message_;
  const OnEnd on_end_;
  std::shared_ptr<link::Channel> channel_;
  EventLoop::Tag socket_tag_ = 0;
  std::optional<EventLoop::Tag> death_tag_;
  int pidfd_ = -1;
  link::Channel::Received received_;
  bool unheard_ = false;  // received_ met a limit
  int tries_ = 0;         // since then, after the peer hung up
  bool deaf_ = false;     // until what waits in the channel was sent
  bool closed_ = false;
};

}  // namespace tensorbus::bus
