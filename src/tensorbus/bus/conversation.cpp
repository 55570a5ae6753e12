#include "tensorbus/bus/conversation.hpp"

#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

constexpr int kAtATime = 64;
constexpr int kLastWords = 4096;  // more than a socket's buffer holds

}  // namespace

Conversation::Conversation(Service& service, platform::Fd socket, OnMessage on_message,
                           OnEnd on_end)
    : service_(service), on_message_(std::move(on_message)), on_end_(std::move(on_end)) {
  const int fd = socket.get();
  channel_ = std::make_shared<link::Channel>(std::move(socket), [this, fd](bool writable) {
    service_.watch_writable(socket_tag_, fd, writable);
  });
  socket_tag_ = service_.watch(fd, [this] { on_ready(Cause::kReady); });
}

Conversation::~Conversation() { close(); }

void Conversation::watch_death(int pidfd) {
  pidfd_ = pidfd;
  death_tag_ = service_.watch(pidfd, [this] { on_ready(Cause::kDeath); });
}

void Conversation::listen_when_heard() {
  if (deaf_ || channel_->waiting() == 0) return;
  deaf_ = true;
  service_.watch_readable(socket_tag_, channel_->fd(), false);
}

void Conversation::close() noexcept {
  if (closed_) return;
  closed_ = true;
  channel_->detach();
  service_.unwatch(socket_tag_, channel_->fd());
  if (death_tag_) service_.unwatch(*death_tag_, pidfd_);
}

void Conversation::on_ready(Cause cause) {
  std::string why;
  try {
    channel_->flush();
    if (deaf_ && channel_->waiting() == 0) {
      deaf_ = false;
      service_.watch_readable(socket_tag_, channel_->fd(), true);
    }
    if (deaf_ && cause == Cause::kReady) return;
    link::Channel::Received received;
    // A bounded number at a time: a peer that talks without end must not keep the others waiting.
    // What it said before it died is heard first; a child of it that has the socket may go on
    // talking.
    for (int i = 0; i < (cause == Cause::kDeath ? kLastWords : kAtATime); ++i) {
      const auto state = channel_->receive(received);
      if (state == link::Channel::State::kEnded) cause = Cause::kDeath;
      if (state != link::Channel::State::kMessage) break;
      on_message_(received);
      if (closed_ || (deaf_ && cause == Cause::kReady)) return;
    }
    if (cause == Cause::kReady) return;
  } catch (const Error& error) {
    why = error.what();
  }
  close();
  on_end_(why);
}

}  // namespace tensorbus::bus
