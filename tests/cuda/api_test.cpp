#include <gtest/gtest.h>

// That cuda_api.hpp says what cuda.h says, where that is installed: sizes, offsets, numbers and the
// symbols that names stand for.
#if __has_include(<cuda.h>)

#include <cuda.h>

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "tensorbus/device/cuda/api.hpp"

namespace tensorbus::device::cu {
namespace {

// How a type is passed: enums as int, pointers as pointers, structs by their size.
template <typename Type>
constexpr std::size_t kShape = std::is_pointer_v<Type> ? 1000 : sizeof(Type);

template <typename Ours, typename Theirs>
struct SameShape : std::false_type {};
template <typename... Ours, typename... Theirs>
struct SameShape<Result(Ours...), CUresult(Theirs...)>
    : std::bool_constant<sizeof...(Ours) == sizeof...(Theirs)> {};

template <typename Ours, typename Theirs>
constexpr bool same_parameters() {
  if constexpr (!SameShape<Ours, Theirs>::value) {
    return false;
  } else {
    return []<typename... Mine, typename... Cuda>(Result (*)(Mine...), CUresult (*)(Cuda...)) {
      return ((kShape<Mine> == kShape<Cuda>) && ...);
    }(static_cast<Ours*>(nullptr), static_cast<Theirs*>(nullptr));
  }
}

#define TEXT_OF(name) #name
// `cuda_name` is one of cuda.h's macros, as a rule: here it has become the symbol.
#define EXPECT_SYMBOL(symbol, cuda_name)                   \
  EXPECT_EQ(std::string_view(symbol), TEXT_OF(cuda_name)); \
  EXPECT_TRUE((same_parameters<OursOf, decltype(::cuda_name)>())) << (symbol);

TEST(CudaApi, looks_up_the_symbols_of_its_names_with_their_parameters) {
#define COMPARE(name, symbol, parameters) \
  {                                       \
    using OursOf = Result parameters;     \
    EXPECT_SYMBOL(#symbol, cu##name)      \
  }
  TENSORBUS_CUDA_FUNCTIONS(COMPARE)
#undef COMPARE
}

template <typename Ours, typename Theirs>
constexpr bool is(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

TEST(CudaApi, has_the_numbers_of_results) {
  EXPECT_TRUE(is(Result::kSuccess, CUDA_SUCCESS));
  EXPECT_TRUE(is(Result::kInvalidValue, CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(is(Result::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_TRUE(is(Result::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED));
  EXPECT_TRUE(is(Result::kDeinitialized, CUDA_ERROR_DEINITIALIZED));
  EXPECT_TRUE(is(Result::kNoDevice, CUDA_ERROR_NO_DEVICE));
  EXPECT_TRUE(is(Result::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
  EXPECT_TRUE(is(Result::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT));
  EXPECT_TRUE(is(Result::kMapFailed, CUDA_ERROR_MAP_FAILED));
  EXPECT_TRUE(is(Result::kTooManyPeers, CUDA_ERROR_TOO_MANY_PEERS));
  EXPECT_TRUE(is(Result::kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
  EXPECT_TRUE(is(Result::kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM));
  EXPECT_TRUE(is(Result::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE));
  EXPECT_TRUE(is(Result::kNotReady, CUDA_ERROR_NOT_READY));
  EXPECT_TRUE(is(Result::kHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
  EXPECT_TRUE(is(Result::kNotPermitted, CUDA_ERROR_NOT_PERMITTED));
  EXPECT_TRUE(is(Result::kNotSupported, CUDA_ERROR_NOT_SUPPORTED));
  EXPECT_TRUE(is(Result::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
  EXPECT_TRUE(is(Result::kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  EXPECT_TRUE(is(Result::kUnknown, CUDA_ERROR_UNKNOWN));
}

TEST(CudaApi, has_the_numbers_of_device_attributes) {
  using enum DeviceAttribute;
  EXPECT_TRUE(is(kIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED));
  EXPECT_TRUE(is(kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING));
  EXPECT_TRUE(is(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_TRUE(is(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_TRUE(is(kHostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED));
  EXPECT_TRUE(is(kVirtualMemorySupported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
  EXPECT_TRUE(
      is(kPosixHandlesSupported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
  EXPECT_TRUE(is(kRdmaWithVirtualMemorySupported,
                 CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED));
  EXPECT_TRUE(is(kMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
  EXPECT_TRUE(is(kStreamMemOps64Supported, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
}

TEST(CudaApi, has_the_numbers_of_pointer_attributes) {
  using enum PointerAttribute;
  EXPECT_TRUE(is(kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
  EXPECT_TRUE(is(kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID));
  EXPECT_TRUE(is(kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED));
  EXPECT_TRUE(is(kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
  EXPECT_TRUE(is(kIsLegacyIpcCapable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
  EXPECT_TRUE(is(kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR));
  EXPECT_TRUE(is(kRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
  EXPECT_TRUE(is(kMapped, CU_POINTER_ATTRIBUTE_MAPPED));
  EXPECT_TRUE(is(kAllowedHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));
  EXPECT_TRUE(is(kMempoolHandle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE));
  EXPECT_TRUE(is(kMappingSize, CU_POINTER_ATTRIBUTE_MAPPING_SIZE));
  EXPECT_TRUE(is(kMappingBase, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR));
}

TEST(CudaApi, has_the_numbers_of_kinds_and_flags) {
  EXPECT_TRUE(is(MemoryType::kHost, CU_MEMORYTYPE_HOST));
  EXPECT_TRUE(is(MemoryType::kDevice, CU_MEMORYTYPE_DEVICE));
  EXPECT_TRUE(is(MemoryType::kArray, CU_MEMORYTYPE_ARRAY));
  EXPECT_TRUE(is(MemoryType::kUnified, CU_MEMORYTYPE_UNIFIED));
  EXPECT_TRUE(is(LocationType::kInvalid, CU_MEM_LOCATION_TYPE_INVALID));
  EXPECT_TRUE(is(LocationType::kDevice, CU_MEM_LOCATION_TYPE_DEVICE));
  EXPECT_TRUE(is(AllocationType::kInvalid, CU_MEM_ALLOCATION_TYPE_INVALID));
  EXPECT_TRUE(is(AllocationType::kPinned, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_TRUE(is(HandleType::kNone, CU_MEM_HANDLE_TYPE_NONE));
  EXPECT_TRUE(is(HandleType::kPosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  EXPECT_TRUE(is(AccessFlags::kNone, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  EXPECT_TRUE(is(AccessFlags::kRead, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT_TRUE(is(AccessFlags::kReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_TRUE(is(Granularity::kMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_TRUE(is(Granularity::kRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_TRUE(is(CaptureMode::kGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_TRUE(is(CaptureMode::kThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_TRUE(is(CaptureMode::kRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_TRUE(is(CaptureStatus::kNone, CU_STREAM_CAPTURE_STATUS_NONE));
  EXPECT_TRUE(is(CaptureStatus::kActive, CU_STREAM_CAPTURE_STATUS_ACTIVE));
  EXPECT_TRUE(is(CaptureStatus::kInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED));
  EXPECT_TRUE(is(kHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE));
  EXPECT_TRUE(is(kHostRegisterDeviceMap, CU_MEMHOSTREGISTER_DEVICEMAP));
  EXPECT_TRUE(is(kHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY));
  EXPECT_TRUE(is(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
  EXPECT_TRUE(is(kEventDisableTiming, CU_EVENT_DISABLE_TIMING));
  EXPECT_TRUE(is(kWaitValueGeq, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_TRUE(is(kWriteValueDefault, CU_STREAM_WRITE_VALUE_DEFAULT));
  EXPECT_TRUE(is(kIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

TEST(CudaApi, lays_out_its_structures_in_the_same_way) {
  static_assert(sizeof(Uuid) == sizeof(CUuuid));
  static_assert(sizeof(IpcMemHandle) == sizeof(CUipcMemHandle));
  static_assert(sizeof(MemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));
  static_assert(sizeof(MemPoolProps) == sizeof(CUmemPoolProps));
  static_assert(offsetof(MemPoolProps, handle_types) == offsetof(CUmemPoolProps, handleTypes));
  static_assert(offsetof(MemPoolProps, location) == offsetof(CUmemPoolProps, location));
  static_assert(offsetof(MemPoolProps, max_size) == offsetof(CUmemPoolProps, maxSize));
  static_assert(sizeof(Location) == sizeof(CUmemLocation));
  static_assert(offsetof(Location, id) == offsetof(CUmemLocation, id));
  static_assert(sizeof(AccessDesc) == sizeof(CUmemAccessDesc));
  static_assert(offsetof(AccessDesc, flags) == offsetof(CUmemAccessDesc, flags));
  using Theirs = CUmemAllocationProp;
  static_assert(sizeof(AllocationProp) == sizeof(Theirs));
  static_assert(offsetof(AllocationProp, requested_handle_types) ==
                offsetof(Theirs, requestedHandleTypes));
  static_assert(offsetof(AllocationProp, location) == offsetof(Theirs, location));
  static_assert(offsetof(AllocationProp, win32_meta_data) == offsetof(Theirs, win32HandleMetaData));
  static_assert(offsetof(AllocationProp, flags) == offsetof(Theirs, allocFlags));
  static_assert(offsetof(AllocationProp, flags.rdma_capable) ==
                offsetof(Theirs, allocFlags.gpuDirectRDMACapable));
  static_assert(offsetof(AllocationProp, flags.usage) == offsetof(Theirs, allocFlags.usage));
}

}  // namespace
}  // namespace tensorbus::device::cu

#else

TEST(CudaApi, is_that_of_cuda_h) { GTEST_SKIP() << "cuda.h is not installed: nothing to compare"; }

#endif
