#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::device {

// A stream of a device, of Tensorbus or of another library: enqueued work runs in order. 0 is the
// legacy default stream, which waits for all other streams except non-blocking ones. This object
// owns nothing.
class GpuStream {
 public:
  // `stream`: the driver's handle of a stream of this device.
  explicit GpuStream(const Gpu& device, void* stream = nullptr) noexcept;

  const Gpu& device() const noexcept { return *device_; }
  cu::Stream handle() const noexcept { return stream_; }
  // Throws Error(kUnsupported) if the stream is being captured into a graph, or is the per-thread
  // default stream, which differs in each thread.
  void require_usable(const char* for_what) const;
  // Like require_usable(), but called with the context of the device current.
  void require_usable_in_scope(const char* for_what) const;
  // Sets a function that is called, in any thread, when an error of a stream breaks its device's
  // context. It must not throw.
  static void on_broken_devices(void (*listener)(const Gpu&)) noexcept;
  // Blocks until all enqueued work has run.
  void synchronize() const;
  // Makes later work of this stream run after the present work of `other`.
  void join(const GpuStream& other) const;

  // These enqueue work, and are called with the context of the device current. Enqueues a copy.
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const;
  // Enqueues a call of `function(argument)` in a thread of the driver. The function must not call
  // the driver.
  void call(void (*function)(void*), void* argument) const;
  // Enqueue a store to a counter, given by its device address, or a wait until the counter is at
  // least `value`.
  void write(cu::DevicePtr counter, std::uint64_t value) const;
  void wait_for(cu::DevicePtr counter, std::uint64_t value) const;

  // Objects are equal if they are the same stream of the same device.
  auto operator<=>(const GpuStream&) const = default;

  // Throws an Error if a call on this stream has failed. If the error breaks the context, marks the
  // device as broken.
  void check(cu::Result result, const char* what) const;

 private:
  const Gpu* device_;
  cu::Stream stream_;
};

// A stream that Tensorbus makes and owns. It does not wait for the default stream.
class OwnStream {
 public:
  explicit OwnStream(const Gpu& device);
  // Enqueued work still runs.
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const GpuStream& get() const noexcept { return stream_; }

 private:
  GpuStream stream_;
};

// Pins mapped host memory, and gives the GPUs of this process access to it.
class HostRegistration {
 public:
  // `pages` must outlive this object and contain nothing else. Throws Error(kUnsupported) if the
  // driver refuses.
  HostRegistration(const Gpu& device, std::span<std::byte> pages);
  // No stream operation may refer to the memory any more.
  ~HostRegistration();
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;

  // Returns the address of this byte as a device sees it.
  cu::DevicePtr address_of(const void* byte) const noexcept;

 private:
  const Gpu& device_;
  const std::span<std::byte> pages_;
  cu::DevicePtr address_ = 0;
};

}  // namespace tensorbus::device
