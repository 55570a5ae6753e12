#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tensorbus/values/device.hpp>
#include <vector>

#include "tensorbus/bus/copy/device_plan.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/device/memory/own_block.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// Copies received tensors into a participant's own blocks on a device (docs/cuda.md, "Copies of
// one's own"). Its own streams make the copies, so no thread waits for a GPU. Thread-safe; mutex_
// is not held while the driver is called. Samples keep this object alive, even after their
// participant has ended.
class DeviceCopier {
 public:
  using Stream = device::DeviceKeeper::OurStream;

  // `take_back`: drains the return rings of borrowers. Called when a device has no room.
  DeviceCopier(std::shared_ptr<device::DeviceMemory> device_memory,
               std::function<void()> take_back);
  // Throws Error(kUnsupported) with the reason if copies to a device are not possible here.
  static void require(const Device& device);
  // Called when the participant ends. `take_back` is not called any more.
  void close();

  // Returns a block that may be published any number of times. Throws like
  // DeviceMemory::allocate().
  memory::BlockRef allocate(const Device& device, std::size_t bytes);
  // Fills the block. `order_behind` makes the stream wait for the source of the copy. Throws the
  // driver's errors; then no stream writes to the block any more.
  using OrderBehind = std::function<void(const Stream&)>;
  void fill(const memory::BlockRef& block, const DevicePlan& plan, const OrderBehind& order_behind);
  std::shared_ptr<device::OwnBlock> own(memory::BlockRef block, device::OwnBlock::Intact intact) {
    return std::make_shared<device::OwnBlock>(device_memory_, std::move(block), std::move(intact));
  }
  // Keeps `what` until the block is filled.
  void keep_until_filled(const memory::Block& block, std::shared_ptr<const void> what) {
    device_memory_->marks().keep_until_whole(block, std::move(what));
  }

 private:
  memory::BlockRef allocate_anyhow(const Device& device, std::size_t bytes);
  struct Worker {
    Stream stream;
    std::uint64_t last = 0;  // the write mark of its last block
  };
  Worker take_worker(const device::Gpu& device);
  void put_back(const device::Gpu& device, Worker worker);

  const std::shared_ptr<device::DeviceMemory> device_memory_;
  platform::Mutex take_back_mutex_;
  std::function<void()> take_back_ TB_GUARDED_BY(take_back_mutex_);
  platform::Mutex mutex_;
  // Idle workers, the most recently used last.
  std::map<const device::Gpu*, std::vector<Worker>> workers_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
