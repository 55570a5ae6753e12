// A process of the same user that means harm: it speaks to everybody on a domain, as a borrower and
// as an owner, rightly and wrongly, and writes all over the memory that it is given. What it does
// follows from a seed; what the others do meanwhile does not.
//
//   attack SEED ROUNDS    does that many things, replies "ok", and keeps what it has; any number
//                         of times, the first seed counts

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <iostream>
#include <list>
#include <optional>
#include <random>
#include <string>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/link/wire/control_messages.hpp"
#include "tensorbus/link/wire/peer.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus {
namespace {

using platform::Fd;

constexpr std::size_t kMaxTalks = 24;
constexpr std::size_t kMaxMappings = 64;
constexpr std::size_t kSegmentBytes = 64 * 1024;

class Hostile {
 public:
  Hostile(const std::string& domain, std::uint64_t seed) : random_(seed), domain_(domain) {
    be_born_anew();
  }

  void attack(int rounds) {
    using Act = void (Hostile::*)();
    static constexpr std::array<Act, 24> kActs = {&Hostile::be_born_anew,
                                                  &Hostile::serve,
                                                  &Hostile::serve,
                                                  &Hostile::borrow,
                                                  &Hostile::connect_to_somebody,
                                                  &Hostile::connect_to_somebody,
                                                  &Hostile::accept_somebody,
                                                  &Hostile::accept_somebody,
                                                  &Hostile::greet,
                                                  &Hostile::greet,
                                                  &Hostile::greet_wrongly,
                                                  &Hostile::subscribe,
                                                  &Hostile::subscribe,
                                                  &Hostile::read,
                                                  &Hostile::read,
                                                  &Hostile::read,
                                                  &Hostile::accept_a_link,
                                                  &Hostile::pass_a_segment,
                                                  &Hostile::talk_nonsense,
                                                  &Hostile::say_any_number,
                                                  &Hostile::replay,
                                                  &Hostile::shrink,
                                                  &Hostile::hang_up,
                                                  &Hostile::litter};
    for (int round = 0; round < rounds; ++round) {
      try {
        (this->*kActs[below(kActs.size())])();
      } catch (const Error&) {  // what it met was no better
      }
      spray();
      push();
    }
  }

 private:
  struct Talk {
    explicit Talk(Fd socket) : channel(std::move(socket), [](bool) {}) {}
    link::Channel channel;
    std::vector<Fd> kept;  // open for as long as this
  };

  std::uint64_t number() { return random_() >> random_() % 64; }
  std::size_t below(std::size_t count) { return random_() % count; }
  Id random_id() {
    Id id;
    for (auto& byte : id.bytes) byte = static_cast<std::uint8_t>(random_());
    return id;
  }

  // -- Who it is. Its former self stays behind in the directory.
  void be_born_anew() {
    self_ = random_id();
    listener_ = domain_.listen(self_);
    for (std::uint32_t number = 1; number <= 3; ++number)
      domain_.add_marker(bus::marker_name(bus::escape_topic("topic"), self_, number));
  }

  // -- What it does rightly, to be trusted with more.
  void serve() {
    if (!wait_for(listener_.get())) return;
    accept_somebody();
    link::Channel& channel = talks_.back().channel;
    link::send_hello(channel, self_, page_);
    link::Channel::Received received;
    while (wait_for(channel.fd()) && channel.receive(received) == link::Channel::State::kMessage) {
      if (received.header.type != link::ControlType::kSubscribe) continue;
      const link::Geometry geometry = link::Geometry::for_link(8, 8);
      link::LinkSegment& ring = make_ring(geometry);
      std::vector<Fd> fds;
      fds.push_back(platform::duplicate(ring.memfd().get()));
      channel.send(link::Accepted{.link = received.as<link::Subscribe>().link,
                                  .slots = geometry.slots,
                                  .returns = geometry.returns,
                                  .max_held = 8},
                   std::move(fds));
      fds.clear();
      if (below(4) == 0) {
        fds.push_back(that_will_shrink(kSegmentBytes));
      } else {
        fds.push_back(platform::create_sealed_memfd("hostile", kSegmentBytes));
        remember(fds.back(), kSegmentBytes);
      }
      channel.send(link::SegmentMessage{static_cast<std::uint32_t>(below(6)), kSegmentBytes, 0},
                   std::move(fds));
      for (int i = 0; i < 8; ++i) push();
    }
  }
  void borrow() {
    connect_to_somebody();
    if (talks_.empty()) return;
    Talk& talk = talks_.back();
    link::send_hello(talk.channel, self_, page_);
    talk.channel.send(
        link::Subscribe{.link = 1, .publisher = 1, .depth = 4, .max_held = 4, .topic = "topic"});
    while (wait_for(talk.channel.fd()) && hear(talk)) {
    }
  }
  static bool wait_for(int fd) {
    pollfd ready{fd, POLLIN, 0};
    return ::poll(&ready, 1, 20) == 1;
  }

  // -- Whom it talks to.
  void connect_to_somebody() {
    std::vector<Id> ids;
    for (const std::string& name : domain_.list())
      if (const auto id = bus::owner_of_file(name); bus::is_socket_name(name) && id && *id != self_)
        ids.push_back(*id);
    if (ids.empty()) return;
    platform::Connection connection = domain_.connect(ids[below(ids.size())]);
    if (connection.outcome == platform::Connect::kDone) talk_over(std::move(connection.socket));
  }
  void accept_somebody() {
    if (Fd socket = platform::accept_from(listener_.get())) talk_over(std::move(socket));
  }
  void talk_over(Fd socket) {
    if (talks_.size() == kMaxTalks) talks_.pop_front();
    talks_.emplace_back(std::move(socket));
  }
  Talk& somebody() {
    if (talks_.empty()) throw Error(Code::kClosed, "nobody");
    return *std::next(talks_.begin(), static_cast<std::ptrdiff_t>(below(talks_.size())));
  }
  void hang_up() {
    if (below(4) != 0) return;
    const Talk* const gone = &somebody();
    talks_.remove_if([&](const Talk& talk) { return &talk == gone; });
  }

  // -- What it says.
  void greet() { link::send_hello(somebody().channel, self_, page_); }
  void greet_wrongly() {
    link::Hello hello{below(2) == 0 ? self_ : random_id(), static_cast<std::uint32_t>(number()),
                      link::kWakeSlots, static_cast<std::uint32_t>(below(3))};
    if (below(4) == 0) hello.wake_slots = static_cast<std::uint32_t>(number());
    somebody().channel.send(hello, descriptors());
  }
  void subscribe() {
    Talk& talk = somebody();
    std::vector<Fd> fds;
    if (below(2) == 0) {
      platform::Notifier notifier = platform::make_notifier();
      ::fcntl(notifier.sender.get(), F_SETFL, 0);
      if (below(2) == 0) ::shutdown(notifier.sender.get(), SHUT_RDWR);
      fds.push_back(std::move(notifier.sender));
      talk.kept.push_back(std::move(notifier.listener));
    }
    talk.channel.send(
        link::Subscribe{.link = static_cast<std::uint32_t>(1 + below(20)),
                        .publisher = static_cast<std::uint32_t>(1 + below(2)),
                        .depth = static_cast<std::uint32_t>(below(2) == 0 ? below(8) : number()),
                        .max_held = static_cast<std::uint32_t>(below(2) == 0 ? 4 : number()),
                        .wake_slot = static_cast<std::uint32_t>(below(8)),
                        .writable = below(8) == 0 ? 1U : 0U,
                        .topic = "topic"},
        std::move(fds));
  }
  void accept_a_link() {
    link::Geometry geometry = link::Geometry::for_link(8, 8);
    const link::LinkSegment& ring = make_ring(geometry);
    std::vector<Fd> fds;
    fds.push_back(below(8) == 0 ? descriptor() : platform::duplicate(ring.memfd().get()));
    if (below(8) == 0) geometry.slots = static_cast<std::uint32_t>(number());
    if (below(8) == 0) geometry.returns = static_cast<std::uint32_t>(number());
    somebody().channel.send(link::Accepted{.link = static_cast<std::uint32_t>(1 + below(4)),
                                           .slots = geometry.slots,
                                           .returns = geometry.returns,
                                           .max_held = static_cast<std::uint32_t>(1 + below(16)),
                                           .wake_slot = static_cast<std::uint32_t>(below(8)),
                                           .reliable = static_cast<std::uint32_t>(below(2)),
                                           .next_sequence = number()},
                            std::move(fds));
  }
  link::LinkSegment& make_ring(const link::Geometry& geometry) {
    rings_.emplace_back(geometry);
    remember(rings_.back().memfd(), geometry.bytes());
    if (rings_.size() > kMaxTalks) rings_.pop_front();
    position_ = 0;
    return rings_.back();
  }
  void pass_a_segment() {
    Fd memory = platform::create_sealed_memfd("hostile", kSegmentBytes);
    remember(memory, kSegmentBytes);
    std::vector<Fd> fds;
    fds.push_back(below(4) == 0 ? descriptor() : std::move(memory));
    somebody().channel.send(
        link::SegmentMessage{static_cast<std::uint32_t>(below(6)),
                             below(8) == 0 ? number() : kSegmentBytes,
                             static_cast<std::uint32_t>(below(8) == 0 ? number() : 0)},
        std::move(fds));
  }
  void say_any_number() {
    link::Channel& channel = somebody().channel;
    const auto any = static_cast<std::uint32_t>(below(2) == 0 ? below(20) : number());
    switch (below(6)) {
      case 0:
        return channel.send(link::Ended{any});
      case 1:
        return channel.send(link::Retired{any});
      case 2:
        return channel.send(link::Unsubscribe{any});
      case 3:
        return channel.send(link::Done{any});
      case 4:
        return channel.send(link::Event{any}, descriptors());
      default:
        return channel.send(link::Refused{any, static_cast<std::uint32_t>(below(12)),
                                          std::string(below(2000), static_cast<char>(random_()))});
    }
  }
  void talk_nonsense() {
    std::vector<std::byte> bytes(below(3) == 0 ? below(6000) : below(64));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    if (bytes.size() >= sizeof(link::ControlHeader) && below(2) == 0) {
      const link::ControlHeader header{
          .type = static_cast<link::ControlType>(below(link::kControlTypes)),
          .version = static_cast<std::uint16_t>(below(4) == 0 ? number() : 1),
          .length = static_cast<std::uint32_t>(bytes.size() - sizeof(link::ControlHeader))};
      std::memcpy(bytes.data(), &header, sizeof header);
    }
    send(somebody(), bytes, descriptors());
  }
  // What somebody else said, with its descriptors, to anybody.
  void replay() {
    if (heard_.empty()) return;
    const platform::Datagram& old = heard_[below(heard_.size())];
    std::vector<Fd> fds;
    for (const Fd& fd : old.fds)
      if (fd) fds.push_back(platform::duplicate(fd.get()));
    send(somebody(), old.bytes, std::move(fds));
  }
  static void send(const Talk& talk, std::span<const std::byte> bytes, std::vector<Fd> fds) {
    std::vector<int> numbers;
    for (const Fd& fd : fds) numbers.push_back(fd.get());
    (void)platform::send_datagram(talk.channel.fd(), bytes, numbers);
  }

  // -- What it hears: it maps all that it can write.
  void read() {
    Talk& talk = somebody();
    for (std::size_t i = below(4); i > 0 && hear(talk); --i) {
    }
  }
  bool hear(Talk& talk) {
    link::Channel::Received received;
    if (talk.channel.receive(received) != link::Channel::State::kMessage) return false;
    const auto& fds = received.datagram.fds;
    if (received.header.type == link::ControlType::kHello && !fds.empty())
      remember(fds[0], link::kWakePageBytes);
    if (received.header.type == link::ControlType::kAccepted && !fds.empty()) {
      const auto accepted = received.as<link::Accepted>();
      remember(fds[0], link::Geometry{accepted.slots, accepted.returns}.bytes());
    }
    if (heard_.size() == kMaxTalks) heard_.erase(heard_.begin());
    heard_.push_back(std::move(received.datagram));
    return true;
  }
  void remember(const Fd& memory, std::size_t bytes) {
    platform::verify_sealed_memfd(memory.get(), bytes,
                                  "memory");  // another like us may have sent it
    mappings_.emplace_back(memory.get(), bytes, platform::Mapping::Access::kReadWrite);
    if (mappings_.size() > kMaxMappings) mappings_.pop_front();
  }

  // -- What it writes.
  void spray() {
    if (mappings_.empty()) return;
    for (int i = 0; i < 100; ++i) {
      const platform::Mapping& mapping =
          *std::next(mappings_.begin(), static_cast<std::ptrdiff_t>(below(mappings_.size())));
      // The first words of a page are those that matter most.
      const std::size_t words = below(2) == 0 ? 1024 : mapping.size() / 8;
      auto* word = reinterpret_cast<volatile std::uint64_t*>(mapping.data()) +
                   below(std::min(words, mapping.size() / 8));
      switch (below(4)) {
        case 0:
          *word = number();
          break;
        case 1:
          *word = *word + 1;
          break;
        case 2:
          *word = *(reinterpret_cast<volatile std::uint64_t*>(mapping.data()) +
                    below(mapping.size() / 8));
          break;
        default:
          *word = 0;
          break;
      }
    }
  }
  // A sample, nearly right, into a ring that it owns.
  void push() {
    if (rings_.empty()) return;
    link::LinkSegment& ring = rings_.back();
    tensor::Descriptor descriptor;
    descriptor.tensors.push_back(
        {.layout = Layout::contiguous(DType::kUInt64, {static_cast<std::int64_t>(below(4))}),
         .segment = static_cast<std::uint32_t>(below(6)),
         .offset = below(4) == 0 ? number() : below(kSegmentBytes)});
    link::Entry entry;
    entry.sequence = number();
    entry.token = number();
    entry.length = static_cast<std::uint32_t>(descriptor.encoded_bytes());
    descriptor.encode(std::span(entry.inline_bytes).first(entry.length));
    if (below(8) == 0) entry.length = static_cast<std::uint32_t>(number());
    if (below(4) == 0) entry.segment = static_cast<std::uint32_t>(below(6));
    link::SampleRingWriter(ring.slots()).push(position_++, entry);
  }

  // -- What it hands over.
  std::vector<Fd> descriptors() {
    std::vector<Fd> fds;
    for (std::size_t i = below(5); i > 0; --i) fds.push_back(descriptor());
    return fds;
  }
  Fd descriptor() {
    switch (below(12)) {
      case 0:
        return link::testing::some_pipe();
      case 1:
        return platform::make_event();
      case 2:
        return Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
      case 3:
        return Fd(::open("/", O_PATH | O_CLOEXEC));
      case 4:
        return std::move(link::testing::connected_sockets().one);
      case 5:
        return std::move(platform::make_notifier().sender);
      case 6:
        return platform::open_own_pidfd();
      case 7:
        return platform::duplicate(page_.memfd().get());
      case 8:
        return platform::create_sealed_memfd("hostile", 1 + below(2 * kSegmentBytes));
      case 9:
        return that_will_shrink(kSegmentBytes);
      case 10:
        return that_will_shrink(link::kWakePageBytes);
      default: {
        char path[] = "/tmp/tensorbus-hostile-XXXXXX";
        Fd file(::mkstemp(path));
        ::unlink(path);
        (void)::ftruncate(file.get(), kSegmentBytes);
        shrinking_.push_back(platform::duplicate(file.get()));
        return file;
      }
    }
  }
  Fd that_will_shrink(std::size_t bytes) {
    Fd memory = link::testing::unsealed_memfd(bytes);
    shrinking_.push_back(platform::duplicate(memory.get()));
    return memory;
  }
  void shrink() {
    for (const Fd& fd : std::exchange(shrinking_, {})) (void)::ftruncate(fd.get(), 0);
  }

  // -- What it leaves lying about.
  void litter() {
    const std::string id = random_id().hex();
    switch (below(5)) {
      case 0:
        return domain_.add_marker(bus::marker_name("topic", random_id(), 1));
      case 1:
        return domain_.add_marker("topic@" + id + "." + std::to_string(number()) + ".pub");
      case 2:
        return domain_.add_marker(id + ".sock");
      case 3:
        return domain_.add_marker("." + id + ".tmp");
      default:
        (void)::symlink("/dev/null", (domain_.path() + "/" + id + ".sock").c_str());
    }
  }

  std::mt19937_64 random_;
  const bus::Domain domain_;
  Id self_;
  Fd listener_;
  const link::WakePage page_;
  std::list<Talk> talks_;
  std::list<platform::Mapping> mappings_;
  std::list<link::LinkSegment> rings_;
  std::vector<platform::Datagram> heard_;
  std::vector<Fd> shrinking_;
  std::uint64_t position_ = 0;
};

}  // namespace
}  // namespace tensorbus

int main(int, char** arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  std::optional<tensorbus::Hostile> hostile;
  std::string command;
  std::uint64_t seed = 0;
  int rounds = 0;
  while (std::cin >> command >> seed >> rounds) {
    if (!hostile) hostile.emplace(arguments[1], seed);
    hostile->attack(rounds);
    std::cout << "ok" << std::endl;
  }
}
