#include "tensorbus/link/ring/pool_holds.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::link {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kTimeToDie{1};

// The holds of a borrower that has gone.
struct Rest {
  std::shared_ptr<Channel> channel{};
  std::shared_ptr<const platform::Fd> pidfd{};
  std::map<memory::SegmentId, PoolHolds::Hold> holds{};
  std::optional<Clock::time_point> hung_up_at{};
};

bool is_dead(const platform::Fd& pidfd) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// A process that is being killed may close its socket before the driver has taken back its imports.
// Any other process closes its imports before it hangs up, or never opened them.
bool is_over(Rest& rest) {
  if (!rest.hung_up_at) {
    if (!rest.channel->peer_is_gone()) return false;
    rest.hung_up_at = Clock::now();
  }
  return !rest.pidfd || is_dead(*rest.pidfd) || Clock::now() - *rest.hung_up_at >= kTimeToDie;
}

}  // namespace

PoolHolds::Hold PoolHolds::take(memory::SegmentId segment) {
  auto found = holds_.extract(segment);
  if (!found)
    throw Error(Code::kProtocol, "DEVICE_CLOSED.segment: " + std::to_string(segment.number) +
                                     " was not sent, or is closed already");
  return std::move(found.mapped());
}

// Keeps the channel open to detect that the borrower hangs up. The shutdown shows the borrower that
// no more messages arrive.
void PoolHolds::end(std::shared_ptr<const platform::Fd> pidfd) noexcept {
  if (holds_.empty()) return;
  std::shared_ptr<Rest> rest;
  try {
    rest = std::make_shared<Rest>();
    *rest = {channel_, std::move(pidfd), std::exchange(holds_, {})};
    ::shutdown(channel_->fd(), SHUT_WR);
    if (!is_over(*rest)) device::DeferredReleaser::retry([rest] { return is_over(*rest); });
  } catch (const std::exception&) {  // leaked, not released early
    new (std::nothrow) std::shared_ptr<Rest>(std::move(rest));
    new (std::nothrow) decltype(holds_)(std::move(holds_));
  }
}

}  // namespace tensorbus::link
