#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "tensorbus/link/wire/control.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::link {

// One end of a connection: sends and receives control messages and never blocks. Messages that do
// not fit into the socket wait here, in order. Sending is thread-safe; one thread receives.
class Channel {
  struct Pending {
    std::vector<std::byte> bytes;
    std::vector<platform::Fd> fds;
  };
  // A list: splice() adds a prepared message to the queue without an allocation.
  using Queue = std::list<Pending>;

 public:
  // Calls `wants_to_write` with true when the queue starts to wait for the socket, and with false
  // when it is empty again. Any sending thread may call it; it must not call the channel.
  Channel(platform::Fd socket, std::function<void(bool)> wants_to_write);

  ~Channel() { platform::discard_unread(socket_.get()); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const noexcept { return socket_.get(); }

  // Sends a message, or queues it with its `fds`. A message that cannot be delivered because the
  // peer is gone is dropped: receive() and the pidfd report the peer's death.
  template <typename Message>
  void send(const Message& message, std::vector<platform::Fd> fds = {}) {
    send_bytes(encode_control(message), std::move(fds));
  }
  // A message that is encoded in advance. Sending it allocates nothing, so it can be sent when
  // memory is short.
  class Prepared {
   public:
    // Overwrites the last field, a number of 64 bits.
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
  // Returns true if the socket took it or the peer is gone; false if it would wait: it is not sent.
  template <typename Message>
  bool try_send(const Message& message) {
    return try_send_bytes(encode_control(message));
  }
  // Sends queued messages until the socket takes no more.
  void flush();
  // Returns the number of messages that wait because the peer does not read.
  std::size_t waiting();
  // Returns a mark behind all messages that were sent here up to now.
  std::uint64_t mark();
  // Returns true if the socket has taken what was sent before the mark, or the peer is gone.
  bool has_taken(std::uint64_t mark);
  // Returns how many of these hold descriptors of this process.
  std::size_t waiting_with_descriptors();
  // Returns true if a message sent now would be dropped.
  bool peer_is_gone() const noexcept { return platform::peer_has_hung_up(socket_.get()); }
  // Ends the calls of `wants_to_write`, because nothing reads the socket any more.
  void detach();

  struct Received {
    ControlHeader header;
    platform::Datagram datagram;

    template <typename Message>
    Message as() const {
      return decode_control<Message>(datagram.bytes);
    }
    // Throws Error(kProtocol) unless `least` to `most` descriptors came with the message.
    void require_fds(std::size_t least, std::size_t most) const;
    // Returns the i-th of `count` descriptors. Throws Error(kProtocol) if another number came.
    platform::Fd take_fd(std::size_t i = 0, std::size_t count = 1);
  };
  enum class State { kMessage, kNothing, kEnded };
  // Reads the next message. Throws Error(kProtocol) if it is not a control message.
  State receive(Received& received);

 private:
  void send_bytes(std::vector<std::byte> bytes, std::vector<platform::Fd> fds);
  void send_or_queue(Queue message);
  bool try_send_bytes(std::vector<std::byte> bytes);
  platform::Transfer transmit(const Pending& pending);

  platform::Fd socket_;
  std::function<void(bool)> wants_to_write_;
  platform::Mutex mutex_;
  Queue pending_ TB_GUARDED_BY(mutex_);  // not empty: the last call was wants_to_write_(true)
  std::uint64_t queued_ TB_GUARDED_BY(mutex_) = 0;  // messages that ever had to wait
};

}  // namespace tensorbus::link
