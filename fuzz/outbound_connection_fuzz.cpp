// A borrower's whole connection over a real socket. The owner sends any messages and file
// descriptors, and writes to its rings and segments. Received memory can be read as long as it is
// held, and no file descriptor or lease is lost.

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "fuzz/peer_talk.hpp"
#include "fuzz/session_talk.hpp"
#include "fuzz/type_talk.hpp"
#include "fuzz/wild_descriptor.hpp"
#include "tensorbus/bus/connection/outbound_connection.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"

namespace tensorbus::fuzz {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMaxHeld = 3;
constexpr Id kOwner{{1}};

// Two subscribers over one connection, and the samples that they hold. The first one has a type.
class Borrower {
 public:
  Borrower(World& world, platform::Fd socket, Access access) {
    connection_.emplace(
        world.context, kOwner, std::move(socket),
        [this](bus::OutboundConnection& gone, const std::string& why) {
          check(!ended_);
          ended_ = true;
          gone.end(why);
        },
        [](const auto&, std::uint32_t) {});
    std::array<SubscriberOptions, 2> options = {{{.access = access, .type = our_type()}, {}}};
    for (std::uint32_t i = 0; i < subscribers_.size(); ++i) {
      options[i].depth = 2;
      options[i].max_held = kMaxHeld;
      subscribers_[i] =
          std::make_shared<bus::Receiver>("topic", options[i], world.own_page, nullptr);
      connection_->subscribe(subscribers_[i], i + 1);
    }
    attaching_.emplace(world, connection_->session());
    queueing_.emplace(world, connection_->session());
  }
  ~Borrower() {
    if (!ended_) connection_->end("");
    attaching_->require_answers();
    queueing_->require_answers();
    connection_.reset();
    for (const auto& subscriber : subscribers_) subscriber->close();
    read_all();  // held samples outlive all of these
    attaching_->read_all();
  }
  Borrower(const Borrower&) = delete;
  Borrower& operator=(const Borrower&) = delete;

  bool ended() const { return ended_; }

  void receive(std::size_t which) {
    bus::Sample sample;
    const auto before = subscribers_[which]->stats();
    const bool ready = subscribers_[which]->ready();
    const std::optional<Outcome> outcome = try_receive(which, sample);
    check(outcome != Outcome::kInterrupted);
    check(outcome || ready);
    const auto after = subscribers_[which]->stats();
    check(after.received == before.received + (outcome == Outcome::kDone ? 1 : 0));
    require_text(after.last_refusal);
    if (outcome != Outcome::kDone) return;
    // A sample may come although ready() was false: behind a sample that became bad, because the
    // owner wrote to it during the lease.
    check(ready || after.bad != before.bad);
    held_.push_back(std::move(sample));
    read_all();
  }
  void ask(Input& input) {
    const std::uint8_t what = input.byte();
    if (what >= 0xe0) return queueing_->cancel();
    if (what >= 0x80) return queueing_->ask(input);
    attaching_->attach(static_cast<Access>(what % 3));
    attaching_->read_all();
  }
  void let_go(std::size_t i) {
    if (i >= 0xe0) {
      attaching_->let_go();
      queueing_->let_go();
    }
    if (!held_.empty()) held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i % held_.size()));
  }
  void close(std::size_t which) { subscribers_[which]->close(); }
  void ask_for_events(std::size_t which) { (void)subscribers_[which]->event_descriptor(); }
  void forget_idle() { (void)connection_->idle(); }

 private:
  // Returns an empty value if a publisher has another message type. The subscriber throws once for
  // each of these publishers.
  std::optional<Outcome> try_receive(std::size_t which, bus::Sample& sample) {
    try {
      return subscribers_[which]->try_receive(sample);
    } catch (const Error& error) {
      check(error.code() == Code::kTypeMismatch);
      require_text(error.what());
      const std::string& ours = subscribers_[which]->options().type.definition();
      check(std::string_view(error.what()).ends_with("\nThis subscriber's type:\n" + ours));
      check(++told_[which] <= subscribers_[which]->stats().refused);
      return std::nullopt;
    }
  }
  static void require_text(std::string_view text) {
    check(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  }
  void read_all() const {
    std::uint8_t sum = 0;
    for (const bus::Sample& sample : held_) {
      for (const bus::Tensor& tensor : sample.tensors()) {
        const ByteSpan span = span_of(tensor.layout());
        if (span.bytes() == 0) continue;
        sum += static_cast<std::uint8_t>(tensor.data()[span.begin]);
        sum += static_cast<std::uint8_t>(tensor.data()[span.end - 1]);
        if (tensor.writable()) tensor.mutable_data()[span.end - 1] = std::byte{sum};
      }
      (void)accepts([&] { (void)sample.fields(); });
    }
  }

  std::optional<bus::OutboundConnection> connection_;
  std::optional<Attaching> attaching_;
  std::optional<Queueing> queueing_;
  bool ended_ = false;
  std::array<std::shared_ptr<bus::Receiver>, 2> subscribers_;
  std::array<std::uint64_t, 2> told_{};
  std::vector<bus::Sample> held_;
};

// The owner: rings of one geometry, and segments that the fuzzer fills.
class Owner : public PeerTalk {
 public:
  Owner(World& world, platform::Fd socket) : PeerTalk(world, std::move(socket)) {
    for (link::Slot& slot : rings().slots()) slot.state = 0;
    *rings().return_tail() = 0;
    for (const platform::Mapping& segment : segments())
      std::memset(segment.data(), 0, segment.size());
  }

  void hear() {
    link::Channel::Received received;
    while (receive(received)) {
      if (received.header.type == link::ControlType::kHello)
        (void)link::accept_hello(received);
      else
        check(hears_exchange(received) || link::dispatch<link::TakenBy::kInbound>(received, *this));
    }
  }
  void operator()(const link::Subscribe& asked, const platform::Fd& notifier) {
    require_sense(asked);
    check(!notifier || platform::is_notifier_sender(notifier.get()));
  }
  void operator()(const link::Event&, const platform::Fd& notifier) {
    check(platform::is_notifier_sender(notifier.get()));
  }
  void operator()(const auto&) {}

  void accept(Input& input) {
    link::Accepted accepted{.link = 1 + input.below(3),
                            .slots = 4,
                            .returns = 8,
                            .max_held = kMaxHeld,
                            .wake_slot = 5,
                            .reliable = input.below(2),
                            .next_sequence = 0};
    const std::uint8_t wrong = input.byte();
    if (wrong >= 0xc0) {
      accepted.slots = static_cast<std::uint32_t>(input.number());
      accepted.returns = static_cast<std::uint32_t>(input.number());
      accepted.max_held = static_cast<std::uint32_t>(input.number());
      accepted.wake_slot = static_cast<std::uint32_t>(input.number());
    }
    if (wrong >= 0xa0 && wrong < 0xc0) return say(accepted, input.byte());
    const std::array<int, 1> fds = {rings().memfd().get()};
    transmit(link::encode_control(accepted), fds);
  }
  void segment(Input& input) {
    const std::uint32_t which = input.below(3);
    const std::uint8_t wrong = input.byte();
    const link::SegmentMessage message{.segment = kWildSegments[input.below(4)],
                                       .bytes = wrong < 0xe0 ? kBytes[which] : input.number(),
                                       .writable = input.below(wrong < 0xe0 ? 2 : 3)};
    say(message, wrong < 0xf0 ? kMemfds[which] : input.byte());
  }
  void refuse(Input& input) {
    link::Refused refused{.link = input.below(4), .code = input.byte(), .text = {}};
    if (refused.code < 0x80) {
      refused.text = text_of(input.bytes(input.byte()));
    } else {
      refused.code = static_cast<std::uint32_t>(Code::kTypeMismatch);
      refused.text = "why\nThe publisher's type:\n" + wild_definition(input);
    }
    say(refused, input);
  }
  void push(Input& input) {
    link::Entry entry;
    entry.sequence = input.number();
    entry.token = input.number();
    const std::vector<std::byte> descriptor = wild_descriptor(input);
    entry.length = static_cast<std::uint32_t>(descriptor.size());
    if (descriptor.size() <= link::kInlineBytes) {
      std::memcpy(entry.inline_bytes.data(), descriptor.data(), descriptor.size());
    } else {
      entry.segment = kWildSegments[input.below(4)];
      entry.offset = input.byte();
      const platform::Mapping& segment = segments()[input.below(3)];
      std::memcpy(segment.data() + entry.offset, descriptor.data(), descriptor.size());
    }
    link::SampleRingWriter(rings().slots()).push(position_++, entry);
  }
  void spoil(Input& input) {
    link::Slot& slot = rings().slots()[input.below(4)];
    const std::size_t word = input.below(16);
    (word == 0 ? slot.state : slot.words[word - 1]) += input.number() - 4;
  }

 private:
  static void require_sense(const link::Subscribe& asked) {
    const MessageType& type = asked.publisher == 1 ? our_type() : MessageType();
    check(asked.topic == "topic" && asked.type == type.definition() &&
          asked.fingerprint == type.fingerprint());
  }

  static constexpr std::array<std::uint8_t, 3> kMemfds = {3, 5, 14};  // in World::kinds
  static constexpr std::array<std::uint64_t, 3> kBytes = {4096, 8192, 5000};

  std::span<const platform::Mapping> segments() {
    const auto mapped = [this](std::size_t i) {
      return platform::Mapping(world().kinds[kMemfds[i]].get(), kBytes[i],
                               platform::Mapping::Access::kReadWrite);
    };
    static const std::array<platform::Mapping, 3> all = {mapped(0), mapped(1), mapped(2)};
    return all;
  }
  static link::LinkSegment& rings() {
    static link::LinkSegment rings{link::Geometry{4, 8}};
    return rings;
  }

  std::uint64_t position_ = 0;
};

void do_something(Owner& owner, Borrower& borrower, const SharedOnce& shared, ServedOnce& hosted,
                  Input& input) {
  switch (input.below(20)) {
    case 16:
    case 17:
    case 18:
      return say_exchange(owner, shared, hosted, input);
    case 19:
      return borrower.ask(input);
    case 0:
      return owner.say_hello(input);
    case 1:
      return owner.accept(input);
    case 2:
    case 3:
      return owner.segment(input);
    case 4:
      return owner.say(link::Retired{kWildSegments[input.below(4)]}, input);
    case 5: {
      const std::uint32_t which = input.below(8);
      return owner.say(link::Ended{which % 4, which / 4}, input);
    }
    case 6:
      return owner.refuse(input);
    case 7:
      return owner.say_anything(input);
    case 8:
    case 9:
      return owner.push(input);
    case 10:
      return owner.spoil(input);
    case 11:
      return borrower.let_go(input.byte());
    case 12:
      return input.byte() < 0xe0 ? owner.hear() : borrower.close(input.below(2));
    case 13:
      return input.flag() ? borrower.forget_idle() : borrower.ask_for_events(input.below(2));
    default:
      return borrower.receive(input.below(2));
  }
}

void run(Input input) {
  static World world;
  static const SharedOnce first(world);  // the arena has its segment now
  const int first_free = lowest_free_descriptor();
  {
    const SharedOnce shared(world);
    ServedOnce hosted(world);
    auto sockets = link::testing::connected_sockets();
    Owner owner(world, std::move(sockets.other));
    const std::uint8_t start = input.byte();
    Borrower borrower(world, std::move(sockets.one), static_cast<Access>(start % 3));
    if (start < 0xe0) owner.say_right_hello(kOwner);
    world.loop.turn(0ms);
    while (!input.empty() && !borrower.ended()) {
      do_something(owner, borrower, shared, hosted, input);
      world.loop.turn(0ms);
    }
    for (std::size_t i = 0; i < 4; ++i) borrower.receive(i % 2);
    owner.hear();
    if (input.flag()) owner.hang_up();
    world.loop.turn(0ms);
    for (std::size_t i = 0; i < 2; ++i) borrower.receive(i);
  }
  world.end_kept_shares();
  check(lowest_free_descriptor() == first_free);
}

}  // namespace
}  // namespace tensorbus::fuzz

// For an empty input, the peer sends one message of each type.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) tensorbus::fuzz::run_each_message({0, 7, 0, 0x80}, LLVMFuzzerTestOneInput);
  tensorbus::fuzz::run({data, size});
  return 0;
}
