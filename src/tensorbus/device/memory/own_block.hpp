#pragma once

#include <memory>
#include <vector>

#include "tensorbus/device/memory/device_keeper.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// A block of this participant on a device, into which received tensors are copied. It is returned
// when the streams that use it have finished. Thread-safe.
class OwnBlock final : public DeviceKeeper {
 public:
  // `intact` returns true if the copied memory was complete; it must not throw.
  OwnBlock(std::shared_ptr<DeviceMemory> device_memory, memory::BlockRef block, Intact intact);
  ~OwnBlock();
  OwnBlock(const OwnBlock&) = delete;
  OwnBlock& operator=(const OwnBlock&) = delete;

  std::byte* data() const noexcept { return block_->data(); }
  void use_on(const GpuStream& stream) override;
  void use_on(const OurStream& stream) override;
  bool intact() const noexcept override;
  Intact intact_later() const override { return intact_; }

 private:
  // Called by the destructor only, when no other thread can use the block.
  void let_go() noexcept TB_NO_THREAD_SAFETY_ANALYSIS;

  const std::uint32_t fork_generation_ = platform::fork_generation();
  const std::shared_ptr<DeviceMemory> device_memory_;
  memory::BlockRef block_;
  const Gpu& device_;
  const Intact intact_;
  platform::Mutex mutex_;
  std::vector<GpuStream> streams_ TB_GUARDED_BY(mutex_);  // that use the block
  std::vector<OurStream> ours_ TB_GUARDED_BY(mutex_);     // some of these
};

}  // namespace tensorbus::device
