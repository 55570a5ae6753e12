#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <tensorbus/values/options.hpp>
#include <vector>

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/device/transfer/pinned_blocks.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// Pins received host memory for GPUs: the samples of one subscriber, or the items of one object of
// a queue, with the option `pin`. Thread-safe.
class Pinning {
 public:
  Pinning() = default;
  Pinning(const Pinning&) = delete;
  Pinning& operator=(const Pinning&) = delete;
  ~Pinning() { close(); }

  // Must be called before pin(). Throws Error(kInvalidArgument) for Access::kPrivate, and
  // Error(kUnsupported) if this process cannot pin. The first call starts the GPU driver.
  void require(Access access);

  // A request to an owner, which has not replied yet.
  struct Awaited {
    std::shared_ptr<device::PinnedBlocks> blocks;
    device::PinnedBlocks::Block block;
  };
  // Pins the blocks that contain the sample, as long as the sample is held. Returns nothing if they
  // are pinned as far as the owners and the driver allow; the sample may then be a copy, because
  // another pin ends in the middle of it. Otherwise PIN was sent to these owners: call again after
  // a reply, with the same sample. `only`: pins no other memory. Without memory for this, the
  // sample stays as it is.
  std::vector<Awaited> pin(Sample& sample, const link::PeerMemory* only = nullptr) noexcept;
  // Withdraws requests: no sample waits for them any more.
  static void withdraw(std::span<const Awaited> awaited) noexcept;

  // Unpins all blocks that no sample needs. No call of pin() may follow.
  void close() noexcept;

 private:
  std::vector<Awaited> pin_blocks(Sample& sample, const link::PeerMemory* only);
  std::vector<Awaited> pin_blocks(Sample& sample, link::Lease& lease, const link::PeerMemory* only,
                                  std::vector<Awaited>& awaited);
  std::shared_ptr<device::PinnedBlocks> subscribed(
      const std::shared_ptr<device::PinnedBlocks>& blocks);

  std::atomic<bool> possible_ =
      false;  // relaxed, also in require(): only saves tests of the driver
  platform::Mutex mutex_;
  // Those that this object has subscribed to.
  std::vector<std::weak_ptr<device::PinnedBlocks>> owners_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
