#pragma once

// Host memory that is pinned for GPUs, as the stand-in for the driver sees it.

#include "ends.hpp"

namespace tensorbus::testing {

inline constexpr std::size_t kElements = 128 * 1024 / 8;

inline bool is_pinned(const std::byte* address) {
  const standin::test::Session session;
  auto type = standin::MemoryType{};
  auto attribute = standin::PointerAttribute::kMemoryType;
  void* data = &type;
  EXPECT_OK(standin::cuPointerGetAttributes(1, &attribute, &data,
                                            reinterpret_cast<standin::DevicePtr>(address)));
  return type == standin::MemoryType::kHost;
}

inline bool is_pinned(const bus::Tensor& tensor) {
  const std::size_t bytes = tensor.layout().elements() * 8;
  return is_pinned(tensor.data()) && is_pinned(tensor.data() + bytes - 1);
}

inline std::size_t pins() {
  return standin_calls("cuMemHostRegister_v2") - standin_calls("cuMemHostUnregister");
}

}  // namespace tensorbus::testing
