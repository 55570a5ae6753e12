#include "tensorbus/link/channel.hpp"

#include <utility>

namespace tensorbus::link {

Channel::Channel(platform::Fd socket, std::function<void(bool)> wants_to_write)
    : socket_(std::move(socket)), wants_to_write_(std::move(wants_to_write)) {}

void Channel::send_bytes(std::vector<std::byte> bytes, std::vector<platform::Fd> fds) {
  const std::lock_guard lock(mutex_);
  Pending message{std::move(bytes), std::move(fds)};
  if (!pending_.empty()) {
    pending_.push_back(std::move(message));
  } else if (transmit(message) == platform::Transfer::kWouldBlock) {
    pending_.push_back(std::move(message));
    wants_to_write_(true);
  }
}

void Channel::flush() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return;
  while (!pending_.empty()) {
    if (transmit(pending_.front()) == platform::Transfer::kWouldBlock) return;
    pending_.pop_front();
  }
  wants_to_write_(false);
}

std::size_t Channel::waiting() {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

void Channel::detach() {
  const std::lock_guard lock(mutex_);
  wants_to_write_ = [](bool) {};
}

platform::Transfer Channel::transmit(const Pending& pending) {
  std::vector<int> fds;
  for (const platform::Fd& fd : pending.fds) fds.push_back(fd.get());
  return platform::send_datagram(socket_.get(), pending.bytes, fds);
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

platform::Fd Channel::Received::take_fd(std::size_t i, std::size_t count) {
  if (datagram.fds.size() != count)
    throw Error(Code::kProtocol, "control message of type " +
                                     std::to_string(static_cast<int>(header.type)) + ": " +
                                     std::to_string(datagram.fds.size()) +
                                     " descriptors, expected " + std::to_string(count));
  return std::move(datagram.fds[i]);
}

}  // namespace tensorbus::link
