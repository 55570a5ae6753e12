#include "tensorbus/bus/copy/device_copier.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {
namespace {

// Several, so that a copy that waits for its writer delays few others.
constexpr std::size_t kMaxWorkers = 8;  // per device

}  // namespace

DeviceCopier::DeviceCopier(std::shared_ptr<device::DeviceMemory> device_memory,
                           std::function<void()> take_back)
    : device_memory_(std::move(device_memory)), take_back_(std::move(take_back)) {}

void DeviceCopier::require(const Device& device) {
  const std::string what = "device=cuda:" + std::to_string(device.ordinal);
  try {
    (void)device::gpu_granularity(device::Gpu::at(device.ordinal));
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    throw Error(Code::kUnsupported,
                what + ": this process cannot copy tensors to it. " + error.what());
  }
}

void DeviceCopier::close() {
  const platform::MutexLock lock(take_back_mutex_);
  take_back_ = {};
}

memory::BlockRef DeviceCopier::allocate(const Device& device, std::size_t bytes) {
  memory::BlockRef block = allocate_anyhow(device, bytes);
  block->make_persistent();
  return block;
}

memory::BlockRef DeviceCopier::allocate_anyhow(const Device& device, std::size_t bytes) {
  const auto& gpu = device::Gpu::at(device.ordinal);
  try {
    return device_memory_->allocate(gpu, bytes);
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  {
    const platform::MutexLock lock(take_back_mutex_);
    if (take_back_) take_back_();
  }
  return device_memory_->allocate(gpu, bytes);
}

void DeviceCopier::fill(const memory::BlockRef& block, const DevicePlan& plan,
                        const OrderBehind& order_behind) {
  const device::Gpu& device = device_memory_->device_of(block->segment());
  Worker worker = take_worker(device);
  const device::GpuStream& stream = worker.stream->get();
  order_behind(worker.stream);
  try {
    plan.copy_on(stream, block->data());
    device_memory_->marks().written_by(stream, {&block, 1});
  } catch (...) {
    stream.synchronize();  // it may still write to the block
    throw;
  }
  worker.last = block->write_mark();
  put_back(device, std::move(worker));
}

// Returns an idle worker, else a new worker, else the worker with the oldest work.
DeviceCopier::Worker DeviceCopier::take_worker(const device::Gpu& device) {
  {
    const platform::MutexLock lock(mutex_);
    std::vector<Worker>& all = workers_[&device];
    auto found = std::find_if(all.begin(), all.end(), [this](const Worker& worker) {
      return device_memory_->marks().whole(worker.last);
    });
    if (found == all.end() && all.size() >= kMaxWorkers) found = all.begin();
    if (found != all.end()) {
      Worker worker = std::move(*found);
      all.erase(found);
      return worker;
    }
  }
  return {std::make_shared<const device::OwnStream>(device)};
}

void DeviceCopier::put_back(const device::Gpu& device, Worker worker) {
  const platform::MutexLock lock(mutex_);
  workers_[&device].push_back(std::move(worker));
}

}  // namespace tensorbus::bus
