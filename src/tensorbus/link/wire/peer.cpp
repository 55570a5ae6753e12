#include "tensorbus/link/wire/peer.hpp"

#include <unistd.h>

#include <cerrno>

#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::link {

void send_hello(Channel& channel, const Id& self, const WakePage& wake_page, platform::Fd lineage) {
  std::vector<platform::Fd> fds;
  fds.push_back(platform::duplicate(wake_page.memfd().get()));
  platform::Fd pidfd = platform::open_own_pidfd();
  // A kernel without pidfds is accepted. A resource limit is an error: a later attempt may succeed.
  if (!pidfd && platform::limit_behind(errno)) platform::throw_system("pidfd_open", errno);
  const bool has_pidfd = static_cast<bool>(pidfd);
  if (has_pidfd) fds.push_back(std::move(pidfd));
  if (lineage) fds.push_back(std::move(lineage));
  channel.send(Hello{.id = self,
                     .pid = static_cast<std::uint32_t>(::getpid()),
                     .wake_slots = kWakeSlots,
                     .has_pidfd = has_pidfd},
               std::move(fds));
  platform::kill_point("hello.sent");
}

void check_same_user(int socket) {
  const platform::Credentials peer = platform::peer_credentials(socket);
  if (peer.uid != ::geteuid())
    throw Error(Code::kPermission, "the peer is of uid " + std::to_string(peer.uid) +
                                       ", this process of uid " + std::to_string(::geteuid()));
}

bool is_this_process(int socket) { return platform::peer_credentials(socket).pid == ::getpid(); }

void turn_away(int socket, const std::string& why) noexcept {
  platform::discard_unread(socket);
  try {
    (void)platform::send_datagram(
        socket, encode_control(Refused{0, static_cast<std::uint32_t>(Code::kOutOfMemory), why}),
        {});
  } catch (const std::exception&) {  // the peer sees that the connection ends
  }
}

Peer accept_hello(Channel::Received& received) {
  if (received.header.type != ControlType::kHello)
    throw Error(Code::kProtocol, "handshake: expected HELLO first, got message type " +
                                     std::to_string(static_cast<int>(received.header.type)));
  if (received.header.version != kProtocolVersion)
    throw Error(Code::kVersionMismatch,
                "the peer speaks protocol version " + std::to_string(received.header.version) +
                    ", this process speaks version " + std::to_string(kProtocolVersion));
  const auto hello = received.as<Hello>();
  if (hello.layout != kLayoutVersion)
    throw Error(Code::kVersionMismatch,
                "the peer lays out shared memory in version " + std::to_string(hello.layout) +
                    ", this process in version " + std::to_string(kLayoutVersion));
  if (hello.wake_slots != kWakeSlots)
    throw Error(Code::kProtocol, "HELLO.wake_slots: " + std::to_string(hello.wake_slots));
  if (hello.has_pidfd > 1)
    throw Error(Code::kProtocol, "HELLO.has_pidfd: " + std::to_string(hello.has_pidfd));
  const std::size_t before_lineage = 1 + hello.has_pidfd;
  const bool has_lineage = received.datagram.fds.size() == before_lineage + 1;
  const std::size_t fds = before_lineage + (has_lineage ? 1 : 0);
  Peer peer{hello.id, hello.pid, {}, map_peer_wake_page(received.take_fd(0, fds)), {}};
  if (hello.has_pidfd != 0) {
    peer.pidfd = received.take_fd(1, fds);
    if (!platform::is_pidfd(peer.pidfd.get()))
      throw Error(Code::kProtocol, "HELLO.pidfd: the descriptor is not a pidfd");
  }
  if (has_lineage) {
    peer.lineage = received.take_fd(before_lineage, fds);
    if (!platform::is_lineage(peer.lineage.get()))
      throw Error(Code::kProtocol, "HELLO.lineage: expected the end of a pipe for reading");
  }
  return peer;
}

}  // namespace tensorbus::link
