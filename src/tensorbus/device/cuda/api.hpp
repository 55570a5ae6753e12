#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The part of the CUDA driver's interface (libcuda.so.1) that Tensorbus uses. It is declared here,
// so that the build does not need CUDA. The names are CUDA's names without their prefix; the
// numbers are those of CUDA's ABI. tests/cuda/api_test.cpp compares both with cuda.h if cuda.h is
// installed.
//
// Source: NVIDIA, "CUDA Driver API", version 13.0, https://docs.nvidia.com/cuda/cuda-driver-api/.
namespace tensorbus::device::cu {

using Device = int;  // an ordinal in this process
using DevicePtr = std::uint64_t;
using AllocationHandle = std::uint64_t;  // of cuMemCreate
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using MemoryPool = struct MemoryPoolTag*;
using HostFunction = void (*)(void*);

enum class Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kMapFailed = 205,
  kPeerAccessUnsupported = 217,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotReady = 600,
  kTooManyPeers = 711,
  kHostMemoryAlreadyRegistered = 712,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemDriverMismatch = 803,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureImplicit = 906,
  kUnknown = 999,
};

enum class DeviceAttribute : int {
  kIntegrated = 18,
  kUnifiedAddressing = 41,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kHostRegisterSupported = 99,
  kVirtualMemorySupported = 102,
  kPosixHandlesSupported = 103,
  kRdmaWithVirtualMemorySupported = 110,
  kMemoryPoolsSupported = 115,
  kStreamMemOps64Supported = 122,
};

enum class PointerAttribute : int {
  kMemoryType = 2,  // a MemoryType, 32 bits
  kBufferId = 7,    // 64 bits
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14,  // 64 bits, of HandleType
  kMempoolHandle = 17,
  kMappingSize = 18,
  kMappingBase = 19,
};

enum class MemoryType : std::uint32_t { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };
enum class LocationType : int { kInvalid = 0, kDevice = 1 };
enum class AllocationType : int { kInvalid = 0, kPinned = 1 };
enum class HandleType : int { kNone = 0, kPosixFd = 1 };
enum class AccessFlags : int { kNone = 0, kRead = 1, kReadWrite = 3 };
enum class Granularity : int { kMinimum = 0, kRecommended = 1 };
enum class CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum class CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;
inline constexpr unsigned kHostRegisterReadOnly = 8;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kWaitValueGeq = 0;  // (int64)(*address - value) >= 0
inline constexpr unsigned kWriteValueDefault = 0;
inline constexpr unsigned kIpcLazyPeerAccess = 1;

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Uuid&) const = default;
};
static_assert(sizeof(Uuid) == 16);

struct Location {
  LocationType type = LocationType::kInvalid;
  int id = 0;
};

struct AllocationProp {
  AllocationType type = AllocationType::kInvalid;
  HandleType requested_handle_types = HandleType::kNone;
  Location location;
  void* win32_meta_data = nullptr;
  struct {
    unsigned char compression_type = 0;
    unsigned char rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};
static_assert(sizeof(AllocationProp) == 32);

struct AccessDesc {
  Location location;
  AccessFlags flags = AccessFlags::kNone;
};
static_assert(sizeof(AccessDesc) == 12);

struct IpcMemHandle {
  std::array<std::byte, 64> bytes{};
};
static_assert(sizeof(IpcMemHandle) == 64);

struct MemPoolProps {
  AllocationType type = AllocationType::kInvalid;
  HandleType handle_types = HandleType::kNone;
  Location location;
  void* win32_security_attributes = nullptr;
  std::size_t max_size = 0;  // 0: the driver chooses
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(MemPoolProps) == 88);

struct MemPoolPtrExportData {
  std::array<std::byte, 64> bytes{};
};
static_assert(sizeof(MemPoolPtrExportData) == 64);

// CALL(name, symbol, parameters) lists every function that is used. `symbol` is looked up in the
// library: cuda.h of CUDA 12 and 13 maps the name to it.
#define TENSORBUS_CUDA_FUNCTIONS(CALL)                                                            \
  CALL(GetErrorName, cuGetErrorName, (Result, const char**))                                      \
  CALL(GetErrorString, cuGetErrorString, (Result, const char**))                                  \
  CALL(Init, cuInit, (unsigned))                                                                  \
  CALL(DriverGetVersion, cuDriverGetVersion, (int*))                                              \
  CALL(DeviceGetCount, cuDeviceGetCount, (int*))                                                  \
  CALL(DeviceGet, cuDeviceGet, (Device*, int))                                                    \
  CALL(DeviceGetName, cuDeviceGetName, (char*, int, Device))                                      \
  CALL(DeviceGetUuid, cuDeviceGetUuid_v2, (Uuid*, Device))                                        \
  CALL(DeviceGetAttribute, cuDeviceGetAttribute, (int*, DeviceAttribute, Device))                 \
  CALL(DeviceTotalMem, cuDeviceTotalMem_v2, (std::size_t*, Device))                               \
  CALL(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int*, Device, Device))                        \
  CALL(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (Context*, Device))                      \
  CALL(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (Device))                           \
  CALL(CtxPushCurrent, cuCtxPushCurrent_v2, (Context))                                            \
  CALL(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (CaptureMode*))        \
  CALL(CtxPopCurrent, cuCtxPopCurrent_v2, (Context*))                                             \
  CALL(MemGetAllocationGranularity, cuMemGetAllocationGranularity,                                \
       (std::size_t*, const AllocationProp*, Granularity))                                        \
  CALL(MemCreate, cuMemCreate,                                                                    \
       (AllocationHandle*, std::size_t, const AllocationProp*, unsigned long long))               \
  CALL(MemRelease, cuMemRelease, (AllocationHandle))                                              \
  CALL(MemAddressReserve, cuMemAddressReserve,                                                    \
       (DevicePtr*, std::size_t, std::size_t, DevicePtr, unsigned long long))                     \
  CALL(MemAddressFree, cuMemAddressFree, (DevicePtr, std::size_t))                                \
  CALL(MemMap, cuMemMap,                                                                          \
       (DevicePtr, std::size_t, std::size_t, AllocationHandle, unsigned long long))               \
  CALL(MemUnmap, cuMemUnmap, (DevicePtr, std::size_t))                                            \
  CALL(MemSetAccess, cuMemSetAccess, (DevicePtr, std::size_t, const AccessDesc*, std::size_t))    \
  CALL(MemExportToShareableHandle, cuMemExportToShareableHandle,                                  \
       (void*, AllocationHandle, HandleType, unsigned long long))                                 \
  CALL(MemImportFromShareableHandle, cuMemImportFromShareableHandle,                              \
       (AllocationHandle*, void*, HandleType))                                                    \
  CALL(MemRetainAllocationHandle, cuMemRetainAllocationHandle, (AllocationHandle*, void*))        \
  CALL(MemGetAddressRange, cuMemGetAddressRange_v2, (DevicePtr*, std::size_t*, DevicePtr))        \
  CALL(PointerGetAttributes, cuPointerGetAttributes,                                              \
       (unsigned, PointerAttribute*, void**, DevicePtr))                                          \
  CALL(IpcGetMemHandle, cuIpcGetMemHandle, (IpcMemHandle*, DevicePtr))                            \
  CALL(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, (DevicePtr*, IpcMemHandle, unsigned))             \
  CALL(IpcCloseMemHandle, cuIpcCloseMemHandle, (DevicePtr))                                       \
  CALL(MemAlloc, cuMemAlloc_v2, (DevicePtr*, std::size_t))                                        \
  CALL(MemFree, cuMemFree_v2, (DevicePtr))                                                        \
  CALL(MemPoolCreate, cuMemPoolCreate, (MemoryPool*, const MemPoolProps*))                        \
  CALL(MemPoolDestroy, cuMemPoolDestroy, (MemoryPool))                                            \
  CALL(MemPoolSetAccess, cuMemPoolSetAccess, (MemoryPool, const AccessDesc*, std::size_t))        \
  CALL(MemAllocFromPoolAsync, cuMemAllocFromPoolAsync,                                            \
       (DevicePtr*, std::size_t, MemoryPool, Stream))                                             \
  CALL(MemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,                          \
       (void*, MemoryPool, HandleType, unsigned long long))                                       \
  CALL(MemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,                      \
       (MemoryPool*, void*, HandleType, unsigned long long))                                      \
  CALL(MemPoolExportPointer, cuMemPoolExportPointer, (MemPoolPtrExportData*, DevicePtr))          \
  CALL(MemPoolImportPointer, cuMemPoolImportPointer,                                              \
       (DevicePtr*, MemoryPool, MemPoolPtrExportData*))                                           \
  CALL(MemcpyAsync, cuMemcpyAsync, (DevicePtr, DevicePtr, std::size_t, Stream))                   \
  CALL(MemHostRegister, cuMemHostRegister_v2, (void*, std::size_t, unsigned))                     \
  CALL(MemHostUnregister, cuMemHostUnregister, (void*))                                           \
  CALL(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (DevicePtr*, void*, unsigned))      \
  CALL(StreamCreate, cuStreamCreate, (Stream*, unsigned))                                         \
  CALL(StreamDestroy, cuStreamDestroy_v2, (Stream))                                               \
  CALL(StreamSynchronize, cuStreamSynchronize, (Stream))                                          \
  CALL(StreamQuery, cuStreamQuery, (Stream))                                                      \
  CALL(StreamIsCapturing, cuStreamIsCapturing, (Stream, CaptureStatus*))                          \
  CALL(StreamWaitEvent, cuStreamWaitEvent, (Stream, Event, unsigned))                             \
  CALL(StreamWriteValue64, cuStreamWriteValue64_v2, (Stream, DevicePtr, std::uint64_t, unsigned)) \
  CALL(StreamWaitValue64, cuStreamWaitValue64_v2, (Stream, DevicePtr, std::uint64_t, unsigned))   \
  CALL(LaunchHostFunc, cuLaunchHostFunc, (Stream, HostFunction, void*))                           \
  CALL(EventCreate, cuEventCreate, (Event*, unsigned))                                            \
  CALL(EventDestroy, cuEventDestroy_v2, (Event))                                                  \
  CALL(EventRecord, cuEventRecord, (Event, Stream))                                               \
  CALL(EventQuery, cuEventQuery, (Event))

struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration has no parentheses
#define TENSORBUS_CUDA_MEMBER(name, symbol, parameters) Result(*name) parameters = nullptr;
  TENSORBUS_CUDA_FUNCTIONS(TENSORBUS_CUDA_MEMBER)
#undef TENSORBUS_CUDA_MEMBER
};

}  // namespace tensorbus::device::cu
