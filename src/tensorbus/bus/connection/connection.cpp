#include "tensorbus/bus/connection/connection.hpp"

#include <new>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

constexpr int kAtATime = 64;
constexpr int kLastMessages = 65'536;  // messages; more than fit into a socket's buffer
constexpr int kLastTries = 50;         // during about a second

}  // namespace

Connection::Connection(EventLoop& loop, platform::Fd socket, OnMessage on_message, OnEnd on_end)
    : loop_(loop), on_message_(std::move(on_message)), on_end_(std::move(on_end)) {
  const int fd = socket.get();
  channel_ = std::make_shared<link::Channel>(std::move(socket), [this, fd](bool writable) {
    loop_.watch_writable(socket_tag_, fd, writable);
  });
  socket_tag_ = loop_.watch(fd, [this] { on_ready(Cause::kReady); });
  channel_->on_looped_back([this] { loop_.dispatch_soon(socket_tag_); });
}

Connection::~Connection() { close(); }

void Connection::watch_death(int pidfd) {
  if (death_tag_) return;
  pidfd_ = pidfd;
  death_tag_ = loop_.watch(pidfd, [this] { on_ready(Cause::kDeath); });
}

void Connection::listen_when_handled() {
  if (paused_ || channel_->waiting() == 0) return;
  loop_.watch_readable(socket_tag_, channel_->fd(), false);
  paused_ = true;
}

void Connection::close() noexcept {
  if (closed_) return;
  closed_ = true;
  channel_->detach();
  loop_.unwatch(socket_tag_, channel_->fd());
  if (death_tag_) loop_.unwatch(*death_tag_, pidfd_);
}

void Connection::on_ready(Cause cause) {
  std::string why;
  try {
    if (!handle_messages(cause)) return;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) shortage_ = error.what();
    if (error.code() == Code::kOutOfMemory && may_try_again(cause)) throw;
    if (error.code() != Code::kOutOfMemory) why = error.what();
  } catch (const std::bad_alloc&) {
    shortage_ = "no memory";  // short enough for no allocation
    if (may_try_again(cause)) throw;
  }
  close();
  on_end_(why);
}

// Returns true if the message may be handled again after a limit was met. No message is lost,
// except from a peer that is gone: its message could wait forever for resources that the peer
// itself holds.
bool Connection::may_try_again(Cause cause) noexcept {
  return cause == Cause::kReady && (!channel_->peer_is_gone() || ++tries_ < kLastTries);
}

bool Connection::handle_messages(Cause cause) {
  channel_->flush();
  if (paused_ && channel_->waiting() == 0) {
    loop_.watch_readable(socket_tag_, channel_->fd(), true);
    paused_ = false;
  }
  if (paused_ && cause == Cause::kReady) return false;
  // Handles a bounded number of messages at a time, so that a peer that never stops sending does
  // not block the others. At the peer's death, first handles the messages that the peer had sent.
  // Their number is bounded, too: a forked child with the socket may go on sending.
  std::optional<link::Channel::Batch> answers;  // replies to the messages of one datagram
  for (int i = 0; i < (cause == Cause::kDeath ? kLastMessages : kAtATime); ++i) {
    const auto state = unhandled_ ? link::Channel::State::kMessage : channel_->receive(received_);
    if (state == link::Channel::State::kEnded) return true;
    if (state != link::Channel::State::kMessage) break;
    unhandled_ = true;
    if (!answers && channel_->has_rest()) answers.emplace(channel_);
    on_message_(received_);
    if (answers && !channel_->has_rest()) answers.reset();
    unhandled_ = false;
    shortage_.clear();
    received_.datagram.fds.clear();
    if (closed_ || (paused_ && cause == Cause::kReady)) return false;
  }
  if (channel_->has_more()) loop_.dispatch_soon(socket_tag_);
  return cause == Cause::kDeath;
}

}  // namespace tensorbus::bus
