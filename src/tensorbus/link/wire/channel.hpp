#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <thread>
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
  // A list: splice() appends a prepared message without an allocation.
  using Queue = std::list<Pending>;

 public:
  // Calls `wants_to_write` with true when messages begin to wait for the socket, and with false
  // when none waits any more. Any sending thread may call it; it must not call the channel.
  Channel(platform::Fd socket, std::function<void(bool)> wants_to_write);

  ~Channel() { platform::discard_unread(socket_.get()); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int fd() const noexcept { return socket_.get(); }

  // Joins the two ends of a connection of one participant with itself: later messages go from one
  // end to the other in memory, after those in the socket. Called before any other code can use the
  // channels.
  static void loop_back(const std::shared_ptr<Channel>& one, const std::shared_ptr<Channel>& other);
  bool is_loop_back() const noexcept { return looped_; }
  bool is_joined_with(const Channel& other) const noexcept {
    return looped_ && other_.lock().get() == &other;
  }
  // For a channel that is looped back: the sending thread calls `notify` when receive() has a
  // message again. It must not call the channel.
  void on_looped_back(std::function<void()> notify);
  // Returns true if receive() has a message that poll() does not report: it came in memory, or in
  // one datagram with the last one. Called by the receiving thread.
  bool has_more();
  // Returns true if messages of the last datagram are left.
  bool has_rest() const noexcept { return rest_at_ < rest_.size(); }

  // While a batch exists, messages of its thread on this channel are collected into few datagrams.
  // A message of another thread is not delayed: it is sent after the messages collected so far. A
  // second batch at the same time does nothing.
  class Batch {
   public:
    explicit Batch(std::shared_ptr<Channel> channel);
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

   private:
    std::shared_ptr<Channel> channel_;  // null: does nothing
  };

  // Sends a message, or queues it with its `fds`. If the peer is gone, the message is dropped:
  // receive() and the pidfd report the peer's death.
  template <typename Message>
  void send(const Message& message, std::vector<platform::Fd> fds = {}) {
    send_bytes(encode_control(message), std::move(fds));
  }
  // A message that is encoded in advance. Sending it allocates nothing, so it can be sent when
  // memory is short.
  class Prepared {
   public:
    // Overwrites the last field, a 64-bit number.
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
  // Delays a message so that it is sent in one datagram with the next one, or by send_delayed().
  // Returns true if no other message is delayed: the caller then arranges the call of
  // send_delayed(). If kMaxDelayed messages are delayed, they are sent now.
  [[nodiscard]] bool delay(Prepared message) noexcept;
  void send_delayed() noexcept;
  static constexpr std::size_t kMaxDelayed = 64;
  // Returns true if the socket took the message or the peer is gone; false if the message would
  // have to wait: it is not sent.
  template <typename Message>
  bool try_send(const Message& message) {
    return try_send_bytes(encode_control(message));
  }
  // Sends queued messages until the socket takes no more.
  void flush();
  // Returns the number of messages that wait because the peer does not read.
  std::size_t waiting();
  // Returns a mark after all messages sent here up to now.
  std::uint64_t mark();
  // Returns true if the socket has taken everything before the mark, or the peer is gone.
  bool has_taken(std::uint64_t mark);
  // Returns how many of the waiting messages hold descriptors of this process.
  std::size_t waiting_with_descriptors();
  // Returns true if a message sent now would be dropped.
  bool peer_is_gone() const noexcept {
    return looped_ ? other_.expired() : platform::peer_has_hung_up(socket_.get());
  }
  // Ends the calls of `wants_to_write` and `notify`: the socket is not read any more.
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
  void transmit_or_queue(Queue message) TB_REQUIRES(mutex_);
  // Transmits delayed messages, then this one.
  void transmit_behind_delayed(Queue message) TB_REQUIRES(mutex_);
  // Returns true if this thread's batch took the message.
  bool add_to_batch(const Pending& message) TB_REQUIRES(mutex_);
  void flush_batch() TB_REQUIRES(mutex_);
  void end_batch() noexcept;
  bool try_send_bytes(std::vector<std::byte> bytes);
  platform::Transfer transmit(const Pending& pending);
  void deliver(Queue message) noexcept;
  bool take_looped_back(platform::Datagram& datagram);
  State receive_from_socket(Received& received);
  bool take_rest(Received& received);
  void split(Received& received);

  platform::Fd socket_;
  bool looped_ = false;           // constant once the channel is in use
  std::weak_ptr<Channel> other_;  // the other end of a channel that is looped back
  bool socket_first_ = false;  // used by the receiving thread: the socket may have earlier messages
  std::function<void(bool)> wants_to_write_;
  platform::Mutex mutex_;
  Queue pending_ TB_GUARDED_BY(mutex_);  // if not empty, wants_to_write_(true) was called last
  std::uint64_t queued_ TB_GUARDED_BY(mutex_) = 0;  // messages that ever had to wait
  Queue delayed_ TB_GUARDED_BY(mutex_);
  std::function<void()> notify_ TB_GUARDED_BY(mutex_);
  Queue looped_back_ TB_GUARDED_BY(mutex_);
  bool detached_ TB_GUARDED_BY(mutex_) = false;
  std::thread::id batching_ TB_GUARDED_BY(mutex_);
  Queue batch_ TB_GUARDED_BY(mutex_);  // one message, or none
  // Used by the receiving thread: a datagram, and the position of its next message.
  std::vector<std::byte> rest_;
  std::size_t rest_at_ = 0;
};

}  // namespace tensorbus::link
