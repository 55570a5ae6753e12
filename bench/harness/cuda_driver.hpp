#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tensorbus/device/cuda/api.hpp"

namespace bench {

namespace cu = tensorbus::device::cu;

// The driver without the library: its functions, and the primary context of the first device,
// current in the thread that made it. TENSORBUS_CUDA_DRIVER names another driver.
class CudaDriver : public cu::Functions {
 public:
  CudaDriver() {
    const char* const named = std::getenv("TENSORBUS_CUDA_DRIVER");
    library_ = ::dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) fail(::dlerror());
#define BENCH_FIND(name, symbol, parameters) find(name, #symbol);
    TENSORBUS_CUDA_FUNCTIONS(BENCH_FIND)
#undef BENCH_FIND
    cu::Context context = nullptr;
    check(Init(0), "cuInit");
    check(DevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(CtxPushCurrent(context), "cuCtxPushCurrent");
  }
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  // Leaves null what this driver does not have.
  template <typename Function>
  void find(Function*& function, const char* symbol) const noexcept {
    function = reinterpret_cast<Function*>(::dlsym(library_, symbol));
  }
  void check(cu::Result result, const char* what) const {
    if (result == cu::Result::kSuccess) return;
    const char* name = "?";
    (void)GetErrorName(result, &name);
    fail((std::string(what) + ": " + name).c_str());
  }
  cu::Stream make_stream() const {
    cu::Stream stream = nullptr;
    check(StreamCreate(&stream, cu::kStreamNonBlocking), "cuStreamCreate");
    return stream;
  }
  void synchronize(cu::Stream stream) const {
    check(StreamSynchronize(stream), "cuStreamSynchronize");
  }

 private:
  [[noreturn]] static void fail(const char* why) {
    std::fprintf(stderr, "%s\n", why);
    std::exit(1);
  }

  void* library_ = nullptr;
};

}  // namespace bench
