#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorbus/device/cuda/driver.hpp"

namespace tensorbus::platform {

using GpuUuid = cu::Uuid;

// A GPU that this process sees. Ordinals are this process's own (CUDA_VISIBLE_DEVICES); the UUID
// names the same device everywhere. Each lives as long as the process. Thread-safe.
class Gpu {
 public:
  // All throw what CudaDriver::get() throws.
  static const std::vector<const Gpu*>& all();
  // Throws Error(kInvalidArgument) that says how many there are.
  static const Gpu& at(int ordinal);
  // False: none was used, or the process ends, and the driver must not be called any more.
  static bool any_in_use() noexcept { return CudaDriver::in_use() != nullptr; }
  // Null if this process does not see it.
  static const Gpu* find(const cu::Uuid& uuid);
  // Throws Error(kUnsupported) that says so.
  static const Gpu& seen(const cu::Uuid& uuid);

  int ordinal() const noexcept { return ordinal_; }
  cu::Device handle() const noexcept { return handle_; }
  const cu::Uuid& uuid() const noexcept { return uuid_; }
  const std::string& name() const noexcept { return name_; }
  std::size_t total_bytes() const noexcept { return total_bytes_; }
  // 0 where the driver does not know the attribute.
  int attribute(cu::DeviceAttribute attribute) const;
  // The primary context, which PyTorch and the CUDA runtime use, too. Retained in the first call:
  // that can take a second and some hundred megabytes of the device.
  cu::Context context() const;

  // Has a kernel of this process broken its context? Nothing that was enqueued runs any more.
  bool is_broken() const noexcept { return broken_.load(std::memory_order_relaxed); }
  void note_broken() const noexcept { broken_.store(true, std::memory_order_relaxed); }

  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

 private:
  explicit Gpu(int ordinal);
  static std::vector<const Gpu*> look();

  int ordinal_;
  cu::Device handle_ = 0;
  cu::Uuid uuid_;
  std::string name_;
  std::size_t total_bytes_ = 0;
  mutable std::atomic<cu::Context> context_{nullptr};  // retained for good; never changes
  mutable std::atomic<bool> broken_{false};            // relaxed: nothing is read with it
};

// "GPU-" and the 32 hex digits in groups, as nvidia-smi writes it.
std::string text_of(const cu::Uuid& uuid);

// Has a device's context current in this thread for as long as it lives. The thread may call
// whatever it likes then, also while another captures a graph: nothing that is done in a scope has
// to do with what is captured.
class GpuScope {
 public:
  explicit GpuScope(const Gpu& device);
  ~GpuScope();
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;

 private:
  const CudaDriver& cuda_;
  cu::CaptureMode mode_ = cu::CaptureMode::kRelaxed;  // then the one to go back to
};

}  // namespace tensorbus::platform
