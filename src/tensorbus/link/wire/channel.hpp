#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbus/link/wire/control.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::link {

// One end of a connection: control messages in both directions, never blocking. What does not fit
// into the socket waits here, in order. Sending is thread-safe; receiving is for one thread.
class Channel {
  struct Pending {
    std::vector<std::byte> bytes;
    std::vector<platform::Fd> fds;
  };
  // A list, so that what was made can join the queue without taking memory.
  using Queue = std::list<Pending>;

 public:
  // `wants_to_write(bool)` is told when the queue starts and stops waiting for the socket. It may
  // be called in any sending thread and must not call back.
  Channel(platform::Fd socket, std::function<void(bool)> wants_to_write);

  ~Channel() { platform::discard_unread(socket_.get()); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const noexcept { return socket_.get(); }

  // `fds` are kept until sent. What cannot be delivered because the peer is gone is forgotten:
  // its death is reported by receive() and by the pidfd.
  template <typename Message>
  void send(const Message& message, std::vector<platform::Fd> fds = {}) {
    send_bytes(encode_control(message), std::move(fds));
  }
  // The same in two steps, of which only the first takes memory: for what has to be said whatever
  // happens.
  class Prepared {
   public:
    // Writes the last field, a number of 64 bits, anew.
    void set_last(std::uint64_t value) noexcept;

   private:
    friend class Channel;
    explicit Prepared(std::vector<std::byte> bytes) { message_.push_back({std::move(bytes), {}}); }
    Queue message_;
  };
  template <typename Message>
  static Prepared prepare(const Message& message) {
    return Prepared(encode_control(message));
  }
  void send(Prepared message) noexcept;
  // True: the socket has it, or the peer is gone. False: it would have to wait, and was not sent.
  template <typename Message>
  bool try_send(const Message& message) {
    return try_send_bytes(encode_control(message));
  }
  // Sends what waits, as far as the socket takes it.
  void flush();
  // Messages that wait because the peer does not read.
  std::size_t waiting();
  // Would what is sent now be forgotten?
  bool peer_is_gone() const noexcept { return platform::peer_has_hung_up(socket_.get()); }
  // The reader of the socket is gone: nobody is told any more that something waits.
  void detach();

  struct Received {
    ControlHeader header;
    platform::Datagram datagram;

    template <typename Message>
    Message as() const {
      return decode_control<Message>(datagram.bytes);
    }
    // Throws Error(kProtocol) if another number of descriptors came with it.
    void require_fds(std::size_t least, std::size_t most) const;
    // The only descriptor, or the i-th of `count`. Throws Error(kProtocol) for any other number.
    platform::Fd take_fd(std::size_t i = 0, std::size_t count = 1);
  };
  enum class State { kMessage, kNothing, kEnded };
  // Throws Error(kProtocol) for what is no control message.
  State receive(Received& received);

 private:
  void send_bytes(std::vector<std::byte> bytes, std::vector<platform::Fd> fds);
  void send_or_queue(Queue message);
  bool try_send_bytes(std::vector<std::byte> bytes);
  platform::Transfer transmit(const Pending& pending);

  platform::Fd socket_;
  std::function<void(bool)> wants_to_write_;
  platform::Mutex mutex_;
  Queue pending_ TB_GUARDED_BY(mutex_);  // not empty: wants_to_write_(true) was the last call
};

}  // namespace tensorbus::link
