#pragma once

// A peer that sends the fuzzer's messages over a real socket, and a participant's context without
// its thread. The target makes each turn of the event loop, so that every run is the same.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "fuzz/control_seed.hpp"
#include "fuzz/fuzz.hpp"
#include "tensorbus/bus/connection/inbound_connection.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/queue/kept_messages.hpp"
#include "tensorbus/bus/queue/queue_server.hpp"
#include "tensorbus/link/wire/peer.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::fuzz {

// Returns the next free descriptor. It is the same before and after an input if no descriptor was
// lost.
inline int lowest_free_descriptor() {
  const platform::Fd fd = platform::duplicate(STDERR_FILENO);
  return fd.get();
}

// Returns the pidfd of a process that has ended.
inline platform::Fd dead_pidfd() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  platform::Fd pidfd(static_cast<int>(::syscall(434, child, 0)));  // pidfd_open
  ::waitpid(child, nullptr, 0);
  return pidfd;
}

// The slot of a wake page that always shows a sleeping thread.
inline constexpr std::uint32_t kSleeper = 3;

// Allocates blocks of an arena.
struct Blocks final : bus::SampleBuilder::Allocator {
  memory::Arena& arena;
  const memory::Grant most;
  Blocks(memory::Arena& of, memory::Grant granted) : arena(of), most(granted) {}
  memory::BlockRef allocate(std::size_t bytes) const override {
    return arena.allocate(bytes, most);
  }
  memory::BlockRef allocate_on(const Device&, std::size_t) const override { return {}; }
};

// The objects that outlive an input, and are the same for all inputs.
struct World {
  World() : peer_page(), own_page(std::make_shared<link::WakePage>()) {
    context.queues = std::make_shared<bus::QueueServer>(context);
    context.keep = [this](const auto& from, const link::Keep& asked) { kept.on_keep(from, asked); };
    using platform::create_sealed_memfd;
    peer_page.slot(kSleeper).sleeping = link::kSleepsOnFutex | link::kSleepsOnEvent;
    kinds[0] = platform::duplicate(peer_page.memfd().get());
    kinds[1] = platform::open_own_pidfd();
    platform::Notifier notifier = platform::make_notifier();
    kinds[2] = std::move(notifier.sender);
    listener = std::move(notifier.listener);
    kinds[3] = create_sealed_memfd("fuzz", 4096);
    kinds[4] = platform::reopen_read_only(kinds[3].get());
    kinds[5] = create_sealed_memfd("fuzz", 8192);
    kinds[6] = link::testing::unsealed_memfd(4096);
    kinds[7] = link::testing::unsealed_memfd(link::kWakePageBytes);
    kinds[8] = link::testing::some_pipe();
    kinds[9] = dead_pidfd();
    kinds[10] = platform::Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    kinds[11] = std::move(link::testing::connected_sockets().one);
    kinds[12] = platform::reopen_read_only(peer_page.memfd().get());
    kinds[13] = platform::Fd(::open("/", O_PATH | O_CLOEXEC));
    kinds[14] = create_sealed_memfd("fuzz", 5000);
    kinds[15] = create_sealed_memfd("fuzz", link::Geometry{4, 8}.bytes());
  }

  // Ends the shares that the peer has asked this participant to keep: they outlive the peer.
  void end_kept_shares() {
    for (const std::uint64_t number : kept_shares) context.shares.close(number);
    kept_shares.clear();
  }

  link::WakePage peer_page;
  std::shared_ptr<link::WakePage> own_page;
  bus::EventLoop loop;  // never started
  std::shared_ptr<memory::Arena> arena = memory::Arena::create(
      {.segment_bytes = std::size_t{1} << 20, .budget_bytes = std::size_t{16} << 20});
  std::shared_ptr<device::DeviceMemory> device_memory =
      std::make_shared<device::DeviceMemory>(device::DeviceArenaOptions{});
  bus::ParticipantContext context{Id{{2}}, loop, arena, device_memory, own_page};
  bus::KeptMessages kept{context};
  std::set<std::uint64_t> kept_shares;  // numbers that the peer has sent
  platform::Fd listener;                // never drained, so that the notifier becomes full
  std::array<platform::Fd, 16> kinds;   // of descriptors: valid kinds, and others
};

class PeerTalk {
 public:
  PeerTalk(World& world, platform::Fd socket) : world_(world), socket_(std::move(socket)) {}

  void note_kept(std::uint64_t share) { world_.kept_shares.insert(share); }
  // Sends a message with descriptors of these `kinds`; 0: none.
  template <typename Message>
  void say(const Message& message, std::uint8_t kinds) {
    send(link::encode_control(message), kinds);
  }
  // Sends a message with the descriptors that the input selects; most inputs select none.
  template <typename Message>
  void say(const Message& message, Input& input) {
    const std::uint8_t kinds = input.byte();
    say(message, kinds < 0xe0 ? std::uint8_t{0} : kinds);
  }
  void say_right_hello(const Id& as) {
    const std::array<int, 2> fds = {world_.kinds[0].get(), world_.kinds[1].get()};
    transmit(link::encode_control(link::Hello{as, 1, link::kWakeSlots, 1}), fds);
  }
  void say_hello(Input& input) {
    link::Hello hello{Id{{input.byte()}}, 1, link::kWakeSlots, input.below(3)};
    if (input.byte() >= 0xf0) hello.wake_slots = input.below(4);
    say(hello, input.byte());
  }
  // Sends a message that decodes, a valid header with any body, or any header. Limits the memory
  // that SUBSCRIBE requests for a link.
  void say_anything(Input& input) {
    const std::uint8_t kinds = input.byte();
    const std::uint8_t type = input.byte();
    if (type >= 0x80 && type < 0xf0) return send(control_seed(input), kinds);
    const auto body = input.bytes(input.byte());
    link::ControlHeader header{.type = static_cast<link::ControlType>(type % link::kControlTypes),
                               .length = static_cast<std::uint32_t>(body.size())};
    if (type >= 0xf0) header = input.take<link::ControlHeader>();
    std::vector<std::byte> bytes(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.insert(bytes.end(), body.begin(), body.end());
    if (header.type == link::ControlType::kSubscribe && body.size() >= 16)
      for (const std::size_t at : {9, 10, 11, 13, 14, 15})  // of depth and max_held
        bytes[sizeof header + at] = std::byte{0};
    send(bytes, kinds);
  }
  void hang_up() { socket_.reset(); }

 protected:
  bool receive(link::Channel::Received& received) {
    if (!socket_) return false;
    if (platform::receive_datagram(socket_.get(), link::kMaxControlBytes, link::kMaxControlFds,
                                   received.datagram) != platform::Transfer::kDone)
      return false;
    received.header = link::decode_control_header(received.datagram.bytes);
    return true;
  }
  void transmit(std::span<const std::byte> bytes, std::span<const int> fds) {
    if (socket_) (void)platform::send_datagram(socket_.get(), bytes, fds);
  }
  World& world() { return world_; }

 private:
  // `kinds`: 0 for no descriptor; else one descriptor, and for larger values more descriptors of
  // other kinds.
  void send(std::span<const std::byte> bytes, std::uint8_t kinds) {
    std::vector<int> fds;
    if (kinds != 0) fds.push_back(world_.kinds[kinds % 16].get());
    for (std::uint8_t more = kinds / 16; more >= 8; --more)
      fds.push_back(world_.kinds[(kinds + more) % 16].get());
    transmit(bytes, fds);
  }

  World& world_;
  platform::Fd socket_;
};

}  // namespace tensorbus::fuzz
