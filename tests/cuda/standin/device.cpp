#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "call.hpp"

// cuInit, devices and errors' names.
namespace standin {
namespace {

const std::map<Result, const char*>& error_names() {
  static const auto* const names = new std::map<Result, const char*>{
      {Result::kSuccess, "CUDA_SUCCESS"},
      {Result::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {Result::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {Result::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {Result::kDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
      {Result::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {Result::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {Result::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {Result::kMapFailed, "CUDA_ERROR_MAP_FAILED"},
      {Result::kPeerAccessUnsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
      {Result::kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM"},
      {Result::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {Result::kNotReady, "CUDA_ERROR_NOT_READY"},
      {Result::kTooManyPeers, "CUDA_ERROR_TOO_MANY_PEERS"},
      {Result::kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
      {Result::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED"},
      {Result::kNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
      {Result::kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {Result::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {Result::kUnknown, "CUDA_ERROR_UNKNOWN"},
  };
  return *names;
}

Result name_of(Result error, const char** name) {
  const auto found = error_names().find(error);
  *name = found != error_names().end() ? found->second : nullptr;
  return *name != nullptr ? Result::kSuccess : Result::kInvalidValue;
}

// Returns -1 if the driver does not know it.
int attribute(DeviceAttribute wanted) {
  switch (wanted) {
    case DeviceAttribute::kIntegrated:
      return 0;
    case DeviceAttribute::kUnifiedAddressing:
    case DeviceAttribute::kMemoryPoolsSupported:
      return 1;
    case DeviceAttribute::kComputeCapabilityMajor:
      return 9;
    case DeviceAttribute::kComputeCapabilityMinor:
      return 0;
    case DeviceAttribute::kHostRegisterSupported:
      return settings().has("host_register");
    case DeviceAttribute::kVirtualMemorySupported:
    case DeviceAttribute::kRdmaWithVirtualMemorySupported:
      return settings().has("vmm");
    case DeviceAttribute::kPosixHandlesSupported:
      return settings().has("posix_fd");
    case DeviceAttribute::kStreamMemOps64Supported:
      return settings().has("mem_ops");
  }
  return -1;
}

// Calls `body()` for an existing device.
template <typename Body>
Result call_on_device(const char* symbol, Device device, Body&& body) {
  return call(symbol, [&](World&) { return is_device(device) ? body() : Result::kInvalidDevice; });
}

// Runs before the exit handlers that were registered earlier: streams start nothing afterwards.
void stop_streams() {
  if (is_forked_child()) return;
  const std::lock_guard lock(world().mutex);
  world().exiting = true;
}

void make_contexts(World& all) {
  const std::vector<int>& physical = settings().physical;
  for (std::size_t device = 0; device < physical.size(); ++device)
    all.contexts.push_back(std::make_unique<ContextTag>(
        ContextTag{.device = static_cast<Device>(device), .physical = physical[device]}));
}

}  // namespace

extern "C" Result cuGetErrorName(Result error, const char** name) { return name_of(error, name); }
extern "C" Result cuGetErrorString(Result error, const char** text) { return name_of(error, text); }

extern "C" Result cuInit(unsigned flags) {
  if (const Result refused = admit_uninitialized(__func__); refused != Result::kSuccess)
    return refused;
  if (flags != 0) return Result::kInvalidValue;
  if (settings().physical.empty()) return Result::kNoDevice;
  const std::lock_guard lock(world().mutex);
  if (!world().contexts.empty()) return Result::kSuccess;
  make_contexts(world());
  mark_initialized();
  std::atexit(stop_streams);
  return Result::kSuccess;
}

extern "C" Result cuDriverGetVersion(int* version) {
  if (const Result refused = admit_uninitialized(__func__); refused != Result::kSuccess)
    return refused;
  *version = 13000;
  return Result::kSuccess;
}

extern "C" Result cuDeviceGetCount(int* count) {
  return call(__func__, [&](World&) {
    *count = static_cast<int>(settings().physical.size());
    return Result::kSuccess;
  });
}

extern "C" Result cuDeviceGet(Device* device, int ordinal) {
  return call_on_device(__func__, ordinal, [&] {
    *device = ordinal;
    return Result::kSuccess;
  });
}

extern "C" Result cuDeviceGetName(char* name, int size, Device device) {
  return call_on_device(__func__, device, [&] {
    if (size <= 0) return Result::kInvalidValue;
    std::snprintf(name, static_cast<std::size_t>(size), "Stand-in %d",
                  settings().physical[static_cast<std::size_t>(device)]);
    return Result::kSuccess;
  });
}

extern "C" Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  return call_on_device(__func__, device, [&] {
    *uuid = {};
    std::memcpy(uuid->bytes.data(), "Stand-in", 8);
    uuid->bytes[15] =
        static_cast<std::uint8_t>(settings().physical[static_cast<std::size_t>(device)]);
    return Result::kSuccess;
  });
}

extern "C" Result cuDeviceGetAttribute(int* value, DeviceAttribute wanted, Device device) {
  return call_on_device(__func__, device, [&] {
    const int known = attribute(wanted);
    if (known < 0) return Result::kInvalidValue;
    *value = known;
    return Result::kSuccess;
  });
}

extern "C" Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  return call_on_device(__func__, device, [&] {
    *bytes = settings().memory_bytes;
    return Result::kSuccess;
  });
}

extern "C" Result cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  return call_on_device(__func__, device, [&] {
    if (!is_device(peer)) return Result::kInvalidDevice;
    *can = device != peer && settings().has("peer");
    return Result::kSuccess;
  });
}

}  // namespace standin
