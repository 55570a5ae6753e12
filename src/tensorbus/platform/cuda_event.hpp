#pragma once

#include <utility>

#include "tensorbus/platform/cuda_stream.hpp"

namespace tensorbus::platform {

// A point in the work of a stream of this process.
class CudaEvent {
 public:
  enum class For { kOurselves, kOtherProcesses };

  // One for other processes is never destroyed, since nobody knows whether one still waits for it:
  // those that are done with are used again. Throws Error(kUnsupported) where there are none.
  CudaEvent(const CudaDevice& device, For whom);
  CudaEvent(CudaEvent&& other) noexcept
      : device_(other.device_),
        for_(other.for_),
        name_(other.name_),
        event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent();

  const CudaDevice& device() const noexcept { return *device_; }
  // By which other processes have it.
  const cu::IpcEventHandle& name() const noexcept { return name_; }
  // Both with the context of the stream's device current.
  void record(const CudaStream& stream) const;
  void wait(const CudaStream& stream) const;

 private:
  const CudaDevice* device_;
  For for_;
  cu::IpcEventHandle name_{};
  cu::Event event_ = nullptr;
};

// An event that another process records, or this one.
class ImportedEvent {
 public:
  // Throws Error(kSystem) or Error(kUnsupported) if it cannot be opened here.
  ImportedEvent(const CudaDevice& device, const cu::IpcEventHandle& name);
  ~ImportedEvent();
  ImportedEvent(const ImportedEvent&) = delete;
  ImportedEvent& operator=(const ImportedEvent&) = delete;

  // With the context of the stream's device current: what it was recorded for last.
  void wait(const CudaStream& stream) const;

 private:
  cu::Event event_ = nullptr;
  bool opened_ = false;  // or it is one of our own
};

}  // namespace tensorbus::platform
