#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "tensorbus/device/cuda/driver.hpp"

namespace tensorbus::device {

using GpuUuid = cu::Uuid;

// A GPU that this process sees. Ordinals are those of this process (CUDA_VISIBLE_DEVICES); the UUID
// is the same in every process. Each object lives as long as the process. Thread-safe.
class Gpu {
 public:
  // These throw what CudaDriver::get() throws.
  static const std::vector<const Gpu*>& all();
  // Throws Error(kInvalidArgument), with the number of GPUs in its text, if there is no such GPU.
  static const Gpu& at(int ordinal);
  // Returns false if no GPU was used, or if the process exits and the driver must not be called.
  static bool any_in_use() noexcept { return CudaDriver::in_use() != nullptr; }
  // Returns true in a child of a process that used a GPU, and while the process exits.
  static bool must_be_left_alone() noexcept { return CudaDriver::must_be_left_alone(); }
  // Returns null if this process does not see the GPU.
  static const Gpu* find(const cu::Uuid& uuid);
  // Throws Error(kUnsupported) if this process does not see the GPU.
  static const Gpu& seen(const cu::Uuid& uuid);

  int ordinal() const noexcept { return ordinal_; }
  cu::Device handle() const noexcept { return handle_; }
  const cu::Uuid& uuid() const noexcept { return uuid_; }
  const std::string& name() const noexcept { return name_; }
  std::size_t total_bytes() const noexcept { return total_bytes_; }
  // Returns 0 if the driver does not have the attribute.
  int attribute(cu::DeviceAttribute attribute) const;
  // Returns the primary context, which PyTorch and the CUDA runtime also use. The first call
  // retains it, which can take a second and some hundred megabytes of GPU memory.
  cu::Context context() const;

  // Returns true if a kernel of this process broke the context: no enqueued work runs any more.
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
  mutable std::atomic<cu::Context> context_{nullptr};  // retained forever; never changes
  mutable std::atomic<bool> broken_{false};            // relaxed: no other data depends on it
};

// Returns "GPU-" and 32 hex digits in groups, as nvidia-smi prints it.
std::string text_of(const cu::Uuid& uuid);

// Makes a device's context current in this thread during the scope. Any driver call may be made in
// the scope, even while another thread captures a graph: no call in a scope is captured.
class GpuScope {
 public:
  explicit GpuScope(const Gpu& device);
  ~GpuScope();
  GpuScope(const GpuScope&) = delete;
  GpuScope& operator=(const GpuScope&) = delete;

 private:
  const CudaDriver& cuda_;
  cu::CaptureMode mode_ = cu::CaptureMode::kRelaxed;  // the mode to set, then the mode to restore
};

}  // namespace tensorbus::device
