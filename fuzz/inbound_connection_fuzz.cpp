// An owner's whole connection over a real socket. The borrower sends any messages and file
// descriptors, and writes to its link. The connection ends or continues, the memory comes back, and
// no file descriptor is lost.

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "fuzz/peer_talk.hpp"
#include "fuzz/session_talk.hpp"
#include "fuzz/type_talk.hpp"
#include "tensorbus/bus/connection/inbound_connection.hpp"

namespace tensorbus::fuzz {
namespace {

using namespace std::chrono_literals;

// The owner. Publisher 1 has a type. Publisher 2 is shared and reliable, and keeps a history.
class Owner {
 public:
  Owner(World& world, platform::Fd socket) : world_(world) {
    const std::array<PublisherOptions, 2> options = {
        {{.type = our_type()}, {.depth = 2, .history = 3, .reliable = true, .shared = true}}};
    for (std::uint32_t i = 0; i < options.size(); ++i)
      publishers_[i] =
          std::make_shared<bus::Sender>("topic", i + 1, options[i], world.arena, world.own_page);
    publish(1, 0);
    connection_.emplace(
        world.context, std::move(socket),
        [this](std::uint32_t number) {
          return number == 1 || number == 2 ? publishers_[number - 1] : nullptr;
        },
        [this](bus::InboundConnection& gone, const std::string&) {
          check(!ended_);
          ended_ = true;
          gone.end();
        });
    attaching_.emplace(world, connection_->session());
    queueing_.emplace(world, connection_->session());
  }
  ~Owner() {
    if (!ended_) connection_->end();
    attaching_->require_answers();
    queueing_->require_answers();
    attaching_->read_all();
    for (const auto& publisher : publishers_) check(publisher->stats().subscribers == 0);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  bool ended() const { return ended_; }
  void ask(Input& input) {
    const std::uint8_t what = input.byte();
    if (what >= 0xe0) return queueing_->cancel();
    if (what >= 0x80) return queueing_->ask(input);
    attaching_->attach(static_cast<Access>(what % 3));
    attaching_->read_all();
    if (input.byte() < 0xc0) return;
    attaching_->let_go();
    queueing_->let_go();
  }

  void publish(std::size_t which, std::uint8_t words) {
    bus::Sender& publisher = *publishers_[which];
    const std::vector<std::uint64_t> numbers(words);
    const std::vector<TensorView> tensors(words == 0 ? 0 : 1,
                                          TensorView::of(numbers.data(), {words}));
    const std::array<std::byte, 100> fields{};  // too many for the entry itself
    const Blocks blocks(*world_.arena, publisher.max_grant());
    bus::SampleBuilder sample(tensors,
                              {.tensors = {},
                               .fields = std::span(fields).first(words % fields.size()),
                               .fingerprint = 0,
                               .origin = {}},
                              {*world_.arena, *world_.device_memory, blocks, publisher.copies(),
                               publisher.max_grant(), world_.context.self, *world_.context.lent});
    (void)publisher.publish(sample.ready(), 0ns);
  }
  void close(std::size_t which) {
    if (publishers_[which]->close() && !ended_) connection_->notify_ended();
  }
  void send_retired(std::uint32_t segment) {
    if (!ended_) connection_->send_retired(segment);
  }

 private:
  World& world_;
  std::array<std::shared_ptr<bus::Sender>, 2> publishers_;
  std::optional<bus::InboundConnection> connection_;
  std::optional<Attaching> attaching_;
  std::optional<Queueing> queueing_;
  bool ended_ = false;
};

// The borrower. It checks the messages of the owner, and may write any data to its link.
class Borrower : public PeerTalk {
 public:
  using PeerTalk::PeerTalk;

  void subscribe(Input& input);
  void say_anything(Input& input) {
    checks_answers_ = false;  // it may subscribe with links that are not recorded
    PeerTalk::say_anything(input);
  }
  void hear() {
    link::Channel::Received received;
    while (receive(received)) {
      check(received.header.version == link::kProtocolVersion);
      if (received.header.type == link::ControlType::kHello)
        (void)link::accept_hello(received);
      else
        check(hears_exchange(received) ||
              link::dispatch<link::TakenBy::kOutbound>(received, *this));
    }
  }
  void operator()(const link::Accepted& accepted, platform::Fd fd, const platform::Fd&) {
    require_accepted(accepted.link);
    rings_.emplace(std::move(fd), link::Geometry{accepted.slots, accepted.returns});
  }
  void operator()(const link::Refused& refused) { require_refused(refused); }
  void operator()(const link::Ended&) {}

  void say_event(Input& input) {
    const link::Event event{input.below(4)};
    say(event, input.byte());
  }
  void spoil(Input& input) {
    if (!rings_) return;
    const auto slots = rings_->slots();
    const auto returns = rings_->returns();
    const std::size_t at = input.byte();
    switch (input.below(4)) {
      case 0:
        *rings_->return_tail() += input.number();
        break;
      case 1:
        returns[at % returns.size()].token = input.number();
        break;
      case 2:  // a lease that is in the ring, or was
        returns[at % returns.size()].token = slots[input.byte() % slots.size()].words[2].load();
        *rings_->return_tail() += 1;
        break;
      default:
        slots[at % slots.size()].state += input.number() - 2;
    }
  }

 private:
  // Returns the SUBSCRIBE of the next reply for a link. Replies come in order.
  std::optional<link::Subscribe> next_asked(std::uint32_t link) {
    auto& asked = asked_[link];
    if (!checks_answers_ || asked.empty()) return std::nullopt;
    link::Subscribe next = std::move(asked.front());
    asked.pop_front();
    return next;
  }
  void require_accepted(std::uint32_t link) {
    if (const auto asked = next_asked(link))
      check(asked->topic == "topic" &&
            (asked->publisher == 2 || (asked->publisher == 1 && reads_ours(*asked))));
    else
      check(!checks_answers_);
  }
  void require_refused(const link::Refused& refused) {
    check(!refused.text.empty());
    const auto asked = next_asked(refused.link);
    const bool mismatch = link::code_of(refused.code) == Code::kTypeMismatch;
    if (asked)
      check(mismatch == (asked->publisher == 1 && asked->topic == "topic" && asked->writable == 0 &&
                         !reads_ours(*asked)));
    if (mismatch) check(refused.text.find(our_type().definition()) != refused.text.npos);
  }

  std::optional<link::LinkSegment> rings_;
  std::map<std::uint32_t, std::deque<link::Subscribe>> asked_;
  bool checks_answers_ = true;
};

link::Subscribe wild_subscribe(Input& input) {
  link::Subscribe asked{
      .link = input.below(4),
      .publisher = input.below(4),
      .depth = input.below(9),
      .max_held = input.below(9),
      .wake_slot = input.flag() ? kSleeper : static_cast<std::uint32_t>(input.number()),
      .writable = input.below(3),
      .fingerprint = 0,
      .topic = "topic"};
  const std::uint8_t kind = input.byte();
  if (kind >= 0xf0) asked.topic = "other";
  if (kind < 0xa0) return asked;
  asked.type = wild_definition(input);
  asked.fingerprint = wild_fingerprint(asked.type, input);
  return asked;
}

void Borrower::subscribe(Input& input) {
  const link::Subscribe asked = wild_subscribe(input);
  if (asked.link != 0) asked_[asked.link].push_back(asked);
  say(asked, input.flag() ? 0 : input.byte());
}

void say_something(Borrower& borrower, Owner& owner, const SharedOnce& shared, ServedOnce& hosted,
                   Input& input) {
  switch (input.below(16)) {
    case 12:
    case 13:
    case 14:
      return say_exchange(borrower, shared, hosted, input);
    case 15:
      return owner.ask(input);
    case 0:
      return borrower.say_hello(input);
    case 1:
    case 2:
      return borrower.subscribe(input);
    case 3:
      return borrower.say(link::Unsubscribe{input.below(4)}, input);
    case 4:
      return borrower.say(link::Done{input.below(4)}, input);
    case 5:
      return borrower.say_event(input);
    case 6:
      return borrower.say_anything(input);
    case 7: {
      const std::size_t which = input.below(2);
      return owner.publish(which, input.byte());
    }
    case 8:
      return borrower.spoil(input);
    case 9:
      return owner.close(input.below(2));
    case 10:
      return owner.send_retired(input.below(4));
    default:
      return borrower.hear();
  }
}

void run(Input input) {
  static World world;
  static const SharedOnce first(world);  // the arena has its segment now
  const int first_free = lowest_free_descriptor();
  const std::size_t used_before = world.arena->stats().used_bytes;
  {
    const SharedOnce shared(world);
    ServedOnce hosted(world);
    auto sockets = link::testing::connected_sockets();
    Borrower borrower(world, std::move(sockets.other));
    Owner owner(world, std::move(sockets.one));
    if (input.byte() < 0xc0) borrower.say_right_hello(Id{{1}});
    world.loop.turn(0ms);
    while (!input.empty() && !owner.ended()) {
      say_something(borrower, owner, shared, hosted, input);
      world.loop.turn(0ms);
    }
    borrower.hear();
    if (input.flag()) borrower.hang_up();
    world.loop.turn(0ms);
  }
  world.end_kept_shares();
  check(world.arena->stats().used_bytes == used_before);
  (void)world.arena->take_retired();
  check(lowest_free_descriptor() == first_free);
}

}  // namespace
}  // namespace tensorbus::fuzz

// For an empty input, the peer sends one message of each type.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) tensorbus::fuzz::run_each_message({0, 6, 0, 0x80}, LLVMFuzzerTestOneInput);
  tensorbus::fuzz::run({data, size});
  return 0;
}
