#pragma once

#include <functional>
#include <memory>

#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus::device {

// Keeps GPU memory alive for the streams that use it. Thread-safe.
class DeviceKeeper {
 public:
  using OurStream = std::shared_ptr<const OwnStream>;

  // Lets a stream use the memory: its later work finds the memory completely written, and has run
  // before the memory is reused. Throws what Timeline::wait() throws.
  virtual void use_on(const GpuStream& stream) = 0;
  // The same, and keeps the stream alive.
  virtual void use_on(const OurStream& stream) = 0;
  // Returns false if the writer died before the memory was completely written.
  virtual bool intact() const noexcept = 0;
  // The same for later, when this object is gone; empty: always true.
  using Intact = std::function<bool()>;
  virtual Intact intact_later() const = 0;

 protected:
  ~DeviceKeeper() = default;
};

}  // namespace tensorbus::device
