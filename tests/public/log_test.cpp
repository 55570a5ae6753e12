// What the library has to say goes where the program wants it.

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// A peer that connects to this process, which has no descriptor left to accept it with.
class UnacceptedPeer {
 public:
  explicit UnacceptedPeer(const std::string& domain)
      : peer_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    for (const auto& entry : std::filesystem::directory_iterator(domain))
      if (entry.is_socket()) entry.path().string().copy(address.sun_path, sizeof address.sun_path);
    const rlimit tight{3, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &tight);
    connected_ = ::connect(peer_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~UnacceptedPeer() {
    ::setrlimit(RLIMIT_NOFILE, &before_);
    ::close(peer_);
  }
  UnacceptedPeer(const UnacceptedPeer&) = delete;
  UnacceptedPeer& operator=(const UnacceptedPeer&) = delete;
  bool connected() const { return connected_; }

 private:
  const int peer_;
  rlimit before_{};
  bool connected_ = false;
};

TEST(SetLog, takes_what_the_library_has_to_say) {
  const FreshDomain domain;
  const Participant participant = domain.join();
  static std::atomic<int> warnings{0};  // the function lives on
  static std::atomic<int> others{0};
  set_log([](LogLevel level, std::string_view text) {
    // Whatever needs a descriptor first says so: the connection, or a look at the domain.
    const bool expected =
        level == LogLevel::kWarning && text.find("RLIMIT_NOFILE is 3") != text.npos;
    ++(expected ? warnings : others);
  });
  {
    const UnacceptedPeer peer(participant.domain_path());
    EXPECT_TRUE(peer.connected());
    EXPECT_TRUE(eventually([&] { return warnings > 0; }));
  }
  set_log({});
  EXPECT_EQ(others, 0);
}

}  // namespace
}  // namespace tensorbus
