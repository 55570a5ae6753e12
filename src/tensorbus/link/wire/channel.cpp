#include "tensorbus/link/wire/channel.hpp"

#include <algorithm>
#include <array>

#include "tensorbus/platform/check.hpp"

namespace tensorbus::link {

Channel::Channel(platform::Fd socket, std::function<void(bool)> wants_to_write)
    : socket_(std::move(socket)), wants_to_write_(std::move(wants_to_write)) {}

void Channel::send_bytes(std::vector<std::byte> bytes, std::vector<platform::Fd> fds) {
  Queue message;
  message.push_back({std::move(bytes), std::move(fds)});
  send_or_queue(std::move(message));
}

void Channel::Prepared::set_last(std::uint64_t value) noexcept {
  std::vector<std::byte>& bytes = message_.front().bytes;
  std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
}

void Channel::send(Prepared message) noexcept {
  try {
    send_or_queue(std::move(message.message_));
  } catch (const Error&) {  // the socket takes no more messages: receive() reports its end
  }
}

void Channel::send_or_queue(Queue message) {
  const platform::MutexLock lock(mutex_);
  const bool waits = pending_.empty();
  if (waits && transmit(message.front()) != platform::Transfer::kWouldBlock) return;
  pending_.splice(pending_.end(), message);
  ++queued_;
  if (waits) wants_to_write_(true);
}

bool Channel::try_send_bytes(std::vector<std::byte> bytes) {
  const Pending message{std::move(bytes), {}};
  const platform::MutexLock lock(mutex_);
  return pending_.empty() && transmit(message) != platform::Transfer::kWouldBlock;
}

void Channel::flush() {
  const platform::MutexLock lock(mutex_);
  if (pending_.empty()) return;
  while (!pending_.empty()) {
    if (transmit(pending_.front()) == platform::Transfer::kWouldBlock) return;
    pending_.pop_front();
  }
  wants_to_write_(false);
}

std::size_t Channel::waiting() {
  const platform::MutexLock lock(mutex_);
  return pending_.size();
}

std::uint64_t Channel::mark() {
  const platform::MutexLock lock(mutex_);
  return queued_;
}

bool Channel::has_taken(std::uint64_t mark) {
  const platform::MutexLock lock(mutex_);
  return queued_ - pending_.size() >= mark || peer_is_gone();
}

std::size_t Channel::waiting_with_descriptors() {
  const platform::MutexLock lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(pending_, [](const Pending& message) { return !message.fds.empty(); }));
}

void Channel::detach() {
  const platform::MutexLock lock(mutex_);
  wants_to_write_ = [](bool) {};
}

platform::Transfer Channel::transmit(const Pending& pending) {
  std::array<int, platform::kMaxFdsPerMessage> fds{};
  check(pending.fds.size() <= fds.size());
  for (std::size_t i = 0; i < pending.fds.size(); ++i) fds[i] = pending.fds[i].get();
  return platform::send_datagram(socket_.get(), pending.bytes,
                                 std::span(fds).first(pending.fds.size()));
}

Channel::State Channel::receive(Received& received) {
  switch (platform::receive_datagram(socket_.get(), kMaxControlBytes, kMaxControlFds,
                                     received.datagram)) {
    case platform::Transfer::kWouldBlock:
      return State::kNothing;
    case platform::Transfer::kEnded:
      return State::kEnded;
    case platform::Transfer::kDone:
      break;
  }
  if (received.datagram.truncated)
    throw Error(Code::kProtocol, "control message: too long, or with too many descriptors");
  received.header = decode_control_header(received.datagram.bytes);
  return State::kMessage;
}

void Channel::Received::require_fds(std::size_t least, std::size_t most) const {
  const std::size_t count = datagram.fds.size();
  if (count >= least && count <= most) return;
  const std::string up_to = most != least ? " to " + std::to_string(most) : "";
  throw Error(Code::kProtocol, "control message of type " +
                                   std::to_string(static_cast<int>(header.type)) + ": " +
                                   std::to_string(count) + " descriptors, expected " +
                                   std::to_string(least) + up_to);
}

platform::Fd Channel::Received::take_fd(std::size_t i, std::size_t count) {
  require_fds(count, count);
  return platform::duplicate(datagram.fds[i].get());  // the message may be handled a second time
}

}  // namespace tensorbus::link
