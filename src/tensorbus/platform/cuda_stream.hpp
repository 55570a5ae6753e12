#pragma once

#include <compare>
#include <cstddef>
#include <span>

#include "tensorbus/platform/cuda_device.hpp"

namespace tensorbus::platform {

// A stream of a device, whoever made it: work that is enqueued on it runs in order. 0 is the legacy
// default stream, which waits for all others but those that were made non-blocking.
class CudaStream {
 public:
  explicit CudaStream(const CudaDevice& device, cu::Stream stream = nullptr) noexcept;

  const CudaDevice& device() const noexcept { return *device_; }
  cu::Stream handle() const noexcept { return stream_; }
  // Throws Error(kUnsupported) if it is being captured into a graph, or is the per-thread default
  // stream, which is another one in each thread.
  void require_usable(const char* for_what) const;
  // The same where the context of the device is current.
  void require_usable_in_scope(const char* for_what) const;
  // CudaDriver::check() of a call that had to do with this stream. An error that breaks the context
  // is noted with the device, and told.
  void check(cu::Result result, const char* what) const;
  // Who is told. Any thread; must not throw.
  static void tell_of_broken_devices(void (*listener)(const CudaDevice&)) noexcept;
  // Blocks until all that is enqueued has run.
  void synchronize() const;
  // What is enqueued here from now on runs after all that is enqueued on `other` now.
  void join(const CudaStream& other) const;

  // The same stream of the same device.
  auto operator<=>(const CudaStream&) const = default;

 private:
  const CudaDevice* device_;
  cu::Stream stream_;
};

// A stream that is ours alone, and waits for no other by itself.
class OwnStream {
 public:
  explicit OwnStream(const CudaDevice& device);
  // What is enqueued there still runs.
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const CudaStream& get() const noexcept { return stream_; }

 private:
  CudaStream stream_;
};

// Lets the GPUs of this process read and write mapped memory of the host, and pins it.
class HostRegistration {
 public:
  // `pages` outlive it, and are nobody else's. Throws Error(kUnsupported) where the driver cannot
  // do that.
  HostRegistration(const CudaDevice& device, std::span<std::byte> pages);
  // No operation of a stream may refer to the memory any more.
  ~HostRegistration();
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;

  // Where a device sees this byte of the memory.
  cu::DevicePtr address_of(const void* byte) const noexcept;

 private:
  const CudaDevice& device_;
  const std::span<std::byte> pages_;
  cu::DevicePtr address_ = 0;
};

}  // namespace tensorbus::platform
