#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::platform {

// A stream of a device, whoever made it: work that is enqueued on it runs in order. 0 is the legacy
// default stream, which waits for all others but those that were made non-blocking.
class GpuStream {
 public:
  // `stream`: the driver's handle of one of this device.
  explicit GpuStream(const Gpu& device, void* stream = nullptr) noexcept;

  const Gpu& device() const noexcept { return *device_; }
  cu::Stream handle() const noexcept { return stream_; }
  // Throws Error(kUnsupported) if it is being captured into a graph, or is the per-thread default
  // stream, which is another one in each thread.
  void require_usable(const char* for_what) const;
  // The same where the context of the device is current.
  void require_usable_in_scope(const char* for_what) const;
  // Called when an error of a stream breaks the context of its device. Any thread; must not throw.
  static void tell_of_broken_devices(void (*listener)(const Gpu&)) noexcept;
  // Blocks until all that is enqueued has run.
  void synchronize() const;
  // What is enqueued here from now on runs after all that is enqueued on `other` now.
  void join(const GpuStream& other) const;

  // These enqueue, where the context of the device is current: a copy,
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const;
  // a call of `function(argument)` by a thread of the driver, which must not call the driver,
  void call(void (*function)(void*), void* argument) const;
  // a store to a counter, as the device sees it, and a wait until it has at least this value.
  void write(cu::DevicePtr counter, std::uint64_t value) const;
  void wait_for(cu::DevicePtr counter, std::uint64_t value) const;

  // The same stream of the same device.
  auto operator<=>(const GpuStream&) const = default;

  // Throws an Error if a call that had to do with this stream has failed. One that breaks the
  // context is noted with the device.
  void check(cu::Result result, const char* what) const;

 private:
  const Gpu* device_;
  cu::Stream stream_;
};

// A stream that is ours alone, and waits for no other by itself.
class OwnStream {
 public:
  explicit OwnStream(const Gpu& device);
  // What is enqueued there still runs.
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const GpuStream& get() const noexcept { return stream_; }

 private:
  GpuStream stream_;
};

// Lets the GPUs of this process read and write mapped memory of the host, and pins it.
class HostRegistration {
 public:
  // `pages` outlive it, and are nobody else's. Throws Error(kUnsupported) where the driver cannot
  // do that.
  HostRegistration(const Gpu& device, std::span<std::byte> pages);
  // No operation of a stream may refer to the memory any more.
  ~HostRegistration();
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;

  // Where a device sees this byte of the memory.
  cu::DevicePtr address_of(const void* byte) const noexcept;

 private:
  const Gpu& device_;
  const std::span<std::byte> pages_;
  cu::DevicePtr address_ = 0;
};

}  // namespace tensorbus::platform
