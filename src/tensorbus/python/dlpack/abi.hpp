#pragma once

// The ABI of dlpack.h 1.3 (https://dmlc.github.io/dlpack/latest/c_api.html).

#include <cstdint>

namespace tensorbus::python {

struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  bool operator==(const DLDataType&) const = default;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; before version 1.2 null means row-major
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor tensor;
};

inline constexpr DLPackVersion kDLPackVersion{1, 3};
inline constexpr std::int32_t kDLCpu = 1;
inline constexpr std::int32_t kDLCuda = 2;
inline constexpr std::int32_t kDLCudaHost = 3;
inline constexpr std::uint64_t kDLReadOnly = 1;
inline constexpr std::uint64_t kDLIsCopied = 2;

// A framework provides this table as type(tensor).__dlpack_c_exchange_api__, for callers that
// exchange many tensors. All functions except the allocator return 0, or -1 with a Python error
// set.
struct DLPackExchangeAPI {
  DLPackVersion version;
  DLPackExchangeAPI* older;
  int (*allocate)(DLTensor*, DLManagedTensorVersioned**, void*,
                  void (*)(void*, const char*, const char*));
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  int (*object_from_managed)(DLManagedTensorVersioned* tensor, void** out);
  int (*view_of_object)(void* object, DLTensor* out);  // null if not supported
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};

}  // namespace tensorbus::python
