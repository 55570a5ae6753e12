#pragma once

#include <functional>
#include <memory>

#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus::device {

// Keeps GPU memory alive for the streams that use it. Thread-safe.
class DeviceKeeper {
 public:
  using OurStream = std::shared_ptr<const OwnStream>;

  // Orders a stream that uses the memory: its later work finds the memory completely written, and
  // the memory is reused only after this work has run. Throws what Timeline::wait() throws.
  virtual void use_on(const GpuStream& stream) = 0;
  // Also keeps the stream alive.
  virtual void use_on(const OurStream& stream) = 0;
  // Returns false if the writer died before the memory was completely written.
  virtual bool intact() const noexcept = 0;
  // A function that returns intact() after the end of this object; empty: always true.
  using Intact = std::function<bool()>;
  virtual Intact intact_later() const = 0;

 protected:
  ~DeviceKeeper() = default;
};

}  // namespace tensorbus::device
