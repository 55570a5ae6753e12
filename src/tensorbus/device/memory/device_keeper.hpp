#pragma once

#include <functional>
#include <memory>

#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus::memory {

// Whoever keeps memory of a device for the streams that work with it. Thread-safe.
class DeviceKeeper {
 public:
  using OurStream = std::shared_ptr<const platform::OwnStream>;

  // What is enqueued on the stream from now on finds the memory whole, and has run before it is
  // used again. Throws what Timeline::wait() throws.
  virtual void use_on(const platform::GpuStream& stream) = 0;
  // The same, and keeps the stream.
  virtual void use_on(const OurStream& stream) = 0;
  // False: who was to write it died before it was whole.
  virtual bool intact() const noexcept = 0;
  // The same, to be asked when this is gone; empty: always.
  using Intact = std::function<bool()>;
  virtual Intact intact_later() const = 0;

 protected:
  ~DeviceKeeper() = default;
};

}  // namespace tensorbus::memory
