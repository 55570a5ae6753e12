#include "tensorbus/link/wire/channel.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <new>

#include "tensorbus/platform/check.hpp"

namespace tensorbus::link {
namespace {

// Joins messages into one datagram if they have no descriptors, fit into one, and memory suffices.
template <typename Messages>
void join(Messages& messages) noexcept {
  std::size_t bytes = 0;
  for (const auto& message : messages) {
    bytes += message.bytes.size();
    if (!message.fds.empty() || bytes > kMaxControlBytes) return;
  }
  try {
    std::vector<std::byte>& all = messages.front().bytes;
    all.reserve(bytes);
    for (auto next = std::next(messages.begin()); next != messages.end();
         next = messages.erase(next))
      all.insert(all.end(), next->bytes.begin(), next->bytes.end());
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

Channel::Channel(platform::Fd socket, std::function<void(bool)> wants_to_write)
    : socket_(std::move(socket)), wants_to_write_(std::move(wants_to_write)) {}

void Channel::loop_back(const std::shared_ptr<Channel>& one,
                        const std::shared_ptr<Channel>& other) {
  one->other_ = other;
  other->other_ = one;
  for (Channel* const end : {one.get(), other.get()}) end->looped_ = end->socket_first_ = true;
}

void Channel::on_looped_back(std::function<void()> notify) {
  const platform::MutexLock lock(mutex_);
  notify_ = std::move(notify);
}

bool Channel::has_more() {
  if (has_rest()) return true;
  if (!looped_) return false;
  const platform::MutexLock lock(mutex_);
  return !looped_back_.empty();
}

Channel::Batch::Batch(std::shared_ptr<Channel> channel) {
  if (channel->looped_) return;
  Queue one;
  one.emplace_back();
  one.front().bytes.reserve(kMaxControlBytes);  // so that sending allocates nothing more
  const platform::MutexLock lock(channel->mutex_);
  if (channel->batching_ != std::thread::id()) return;
  channel->batching_ = std::this_thread::get_id();
  channel->batch_ = std::move(one);
  channel_ = std::move(channel);
}

Channel::Batch::~Batch() {
  if (channel_) channel_->end_batch();
}

void Channel::end_batch() noexcept {
  const platform::MutexLock lock(mutex_);
  batching_ = {};
  try {
    flush_batch();
  } catch (const Error&) {  // the socket takes no more messages: receive() reports its end
  }
  batch_.clear();
}

bool Channel::add_to_batch(const Pending& message) {
  if (batching_ != std::this_thread::get_id() || !message.fds.empty()) return false;
  std::vector<std::byte>& bytes = batch_.front().bytes;
  if (bytes.size() + message.bytes.size() > kMaxControlBytes) flush_batch();
  std::vector<std::byte>& now = batch_.front().bytes;
  now.insert(now.end(), message.bytes.begin(), message.bytes.end());
  return true;
}

void Channel::flush_batch() {
  if (batch_.empty() || batch_.front().bytes.empty()) return;
  std::vector<std::byte>& bytes = batch_.front().bytes;
  if (pending_.empty() && transmit(batch_.front()) != platform::Transfer::kWouldBlock)
    return bytes.clear();
  Queue next;
  if (batching_ != std::thread::id()) {
    next.emplace_back();
    next.front().bytes.reserve(kMaxControlBytes);
  }
  std::swap(next, batch_);
  transmit_or_queue(std::move(next));
}

void Channel::deliver(Queue message) noexcept {
  const platform::MutexLock lock(mutex_);
  if (detached_) return;
  const bool first = looped_back_.empty();
  looped_back_.splice(looped_back_.end(), message);
  if (first && notify_) notify_();
}

bool Channel::take_looped_back(platform::Datagram& datagram) {
  const platform::MutexLock lock(mutex_);
  if (looped_back_.empty()) return false;
  Pending& next = looped_back_.front();
  datagram = {std::move(next.bytes), std::move(next.fds)};
  looped_back_.pop_front();
  return true;
}

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
  if (looped_) {
    if (const auto other = other_.lock()) other->deliver(std::move(message));
    return;
  }
  const platform::MutexLock lock(mutex_);
  if (add_to_batch(message.front())) return;
  flush_batch();
  transmit_behind_delayed(std::move(message));
}

bool Channel::delay(Prepared message) noexcept {
  if (looped_) {
    send(std::move(message));
    return false;
  }
  const platform::MutexLock lock(mutex_);
  const bool first = delayed_.empty();
  delayed_.splice(delayed_.end(), message.message_);
  if (delayed_.size() < kMaxDelayed) return first;
  try {
    transmit_behind_delayed({});
  } catch (const Error&) {  // the socket takes no more messages: receive() reports its end
  }
  return false;
}

void Channel::send_delayed() noexcept {
  const platform::MutexLock lock(mutex_);
  try {
    transmit_behind_delayed({});
  } catch (const Error&) {  // as above
  }
}

void Channel::transmit_behind_delayed(Queue message) {
  if (!delayed_.empty()) {
    join(delayed_);
    message.splice(message.begin(), delayed_);
    join(message);
  }
  while (!message.empty()) {
    Queue one;
    one.splice(one.end(), message, message.begin());
    transmit_or_queue(std::move(one));
  }
}

void Channel::transmit_or_queue(Queue message) {
  const bool waits = pending_.empty();
  if (waits && transmit(message.front()) != platform::Transfer::kWouldBlock) return;
  pending_.splice(pending_.end(), message);
  ++queued_;
  if (waits) wants_to_write_(true);
}

bool Channel::try_send_bytes(std::vector<std::byte> bytes) {
  if (looped_) {
    send_bytes(std::move(bytes), {});
    return true;
  }
  const Pending message{std::move(bytes), {}};
  const platform::MutexLock lock(mutex_);
  if (add_to_batch(message)) return true;
  flush_batch();
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
  notify_ = nullptr;
  detached_ = true;
  looped_back_.clear();
}

platform::Transfer Channel::transmit(const Pending& pending) {
  std::array<int, platform::kMaxFdsPerMessage> fds{};
  check(pending.fds.size() <= fds.size());
  for (std::size_t i = 0; i < pending.fds.size(); ++i) fds[i] = pending.fds[i].get();
  return platform::send_datagram(socket_.get(), pending.bytes,
                                 std::span(fds).first(pending.fds.size()));
}

Channel::State Channel::receive(Received& received) {
  if (take_rest(received)) return State::kMessage;
  if (!looped_) return receive_from_socket(received);
  if (socket_first_) {
    const State state = receive_from_socket(received);
    if (state == State::kMessage) return state;
    socket_first_ = false;  // also after its end: messages in memory come after it
  }
  if (take_looped_back(received.datagram)) {
    received.header = decode_control_header(received.datagram.bytes);
    return State::kMessage;
  }
  return other_.expired() ? receive_from_socket(received) : State::kNothing;
}

Channel::State Channel::receive_from_socket(Received& received) {
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
  split(received);
  return State::kMessage;
}

// Keeps the rest of a datagram after its first message.
void Channel::split(Received& received) {
  std::vector<std::byte>& bytes = received.datagram.bytes;
  const std::size_t first = control_bytes(bytes);
  if (first < bytes.size()) {
    if (!received.datagram.fds.empty())
      throw Error(Code::kProtocol, "control message: descriptors of one of several messages");
    rest_ = std::exchange(bytes, {bytes.begin(), bytes.begin() + static_cast<long>(first)});
    rest_at_ = first;
  }
  received.header = decode_control_header(bytes);
}

bool Channel::take_rest(Received& received) {
  if (!has_rest()) return false;
  const auto rest = std::span<const std::byte>(rest_).subspan(rest_at_);
  const auto next = rest.first(control_bytes(rest));
  received.datagram.bytes.assign(next.begin(), next.end());
  received.datagram.fds.clear();
  received.header = decode_control_header(next);
  rest_at_ += next.size();
  return true;
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
