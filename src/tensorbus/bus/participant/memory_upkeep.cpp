#include "tensorbus/bus/participant/memory_upkeep.hpp"

#include <algorithm>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kShortLook = 10ms;  // for exported memory that comes and goes
constexpr auto kLongLook = 500ms;  // for exported memory that stays

}  // namespace

MemoryUpkeep::MemoryUpkeep(ParticipantContext& context, const Publishers& publishers,
                           InboundConnections& inbound, OutboundConnections& outbound)
    : context_(context),
      publishers_(publishers),
      inbound_(inbound),
      outbound_(outbound),
      looking_after_exports_(context.loop.add_task([this] { look_after_exports(); })),
      retiring_idle_(context.loop.add_task([this] { retire_idle(); })),
      notifying_of_retired_(context.loop.add_task([this] { notify_of_retired(); })) {
  const auto retired = [this] { context_.loop.schedule(notifying_of_retired_); };
  context.arena->on_retired(retired);
  context.arena->files().on_retired(retired);
  context.device_memory->on_idle(
      [this] { context_.loop.schedule(retiring_idle_, device::DeviceArena::kIdle + 100ms); });
  context.device_memory->exports().on_first(
      [this] { context_.loop.schedule(looking_after_exports_, kShortLook); });
}

// Polls exported memory: subscribers return it without a message, and its allocators wait for it.
void MemoryUpkeep::look_after_exports() {
  device::DeviceExports& exports = context_.device_memory->exports();
  for (const auto& publisher : publishers_.living()) publisher->drain_if_idle();
  exports.retire_idle(device::DeviceExports::Clock::now());
  const auto now = exports.stats();
  const bool moved = now.lent != exports_seen_.lent || now.blocks != exports_seen_.blocks;
  exports_look_ =
      moved ? kShortLook : std::min<std::chrono::milliseconds>(2 * exports_look_, kLongLook);
  exports_seen_ = now;
  context_.loop.schedule(notifying_of_retired_);
  if (now.segments != 0) context_.loop.schedule(looking_after_exports_, exports_look_);
}

void MemoryUpkeep::retire_idle() {
  for (const auto& publisher : publishers_.living()) publisher->drain_if_idle();
  context_.device_memory->retire_idle(device::DeviceArena::Clock::now());
  notify_of_retired();
}

void MemoryUpkeep::notify_of_retired() {
  while (true) {
    if (retired_.empty()) retired_ = context_.arena->take_retired();
    if (retired_.empty()) retired_ = context_.arena->files().take_retired();
    if (retired_.empty()) retired_ = context_.device_memory->take_retired();
    if (retired_.empty()) return;
    inbound_.send_retired(retired_.back());
    outbound_.send_retired(retired_.back());
    retired_.pop_back();
  }
}

}  // namespace tensorbus::bus
