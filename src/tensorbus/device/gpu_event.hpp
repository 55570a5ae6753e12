#pragma once

#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus::device {

// A point in the work of a stream of this process.
class GpuEvent {
 public:
  explicit GpuEvent(const Gpu& device);
  ~GpuEvent();
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;

  // Both are called with the context of the stream's device current.
  void record(const GpuStream& stream) const;
  void wait(const GpuStream& stream) const;
  // Returns true if the work before the point has run or never will.
  bool has_passed() const noexcept;

 private:
  const Gpu& device_;
  cu::Event event_ = nullptr;
};

}  // namespace tensorbus::device
