#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "tensorbus/link/control.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::link {

// One end of a connection: control messages in both directions, never blocking. What does not fit
// into the socket waits here, in order. Sending is thread-safe; receiving is for one thread.
class Channel {
 public:
  // `wants_to_write(bool)` is told when the queue starts and stops waiting for the socket. It may
  // be called in any sending thread and must not call back.
  Channel(platform::Fd socket, std::function<void(bool)> wants_to_write);

  int fd() const noexcept { return socket_.get(); }

  // `fds` are kept until sent. What cannot be delivered because the peer is gone is forgotten:
  // its death is reported by receive() and by the pidfd.
  template <typename Message>
  void send(const Message& message, std::vector<platform::Fd> fds = {}) {
    send_bytes(encode_control(message), std::move(fds));
  }
  // Sends what waits, as far as the socket takes it.
  void flush();
  // Messages that wait because the peer does not read.
  std::size_t waiting();
  // The reader of the socket is gone: nobody is told any more that something waits.
  void detach();

  struct Received {
    ControlHeader header;
    platform::Datagram datagram;

    template <typename Message>
    Message as() const {
      return decode_control<Message>(datagram.bytes);
    }
    // The only descriptor, or the i-th of `count`. Throws Error(kProtocol) for any other number.
    platform::Fd take_fd(std::size_t i = 0, std::size_t count = 1);
  };
  enum class State { kMessage, kNothing, kEnded };
  // Throws Error(kProtocol) for what is no control message.
  State receive(Received& received);

 private:
  struct Pending {
    std::vector<std::byte> bytes;
    std::vector<platform::Fd> fds;
  };

  void send_bytes(std::vector<std::byte> bytes, std::vector<platform::Fd> fds);
  platform::Transfer transmit(const Pending& pending);

  platform::Fd socket_;
  std::function<void(bool)> wants_to_write_;
  std::mutex mutex_;
  std::deque<Pending> pending_;  // not empty: wants_to_write_(true) was the last call
};

}  // namespace tensorbus::link
