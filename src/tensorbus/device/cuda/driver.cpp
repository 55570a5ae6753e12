#include "tensorbus/device/cuda/driver.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {
namespace {

constexpr int kOldestVersion = 11070;  // cuStreamWaitValue64_v2

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::kUnsupported, "CUDA cannot be used here: " + why);
}

void* load_library() {
  const char* const asked = std::getenv("TENSORBUS_CUDA_DRIVER");
  const std::string name = asked == nullptr || *asked == '\0' ? "libcuda.so.1" : asked;
  if (name == "off") refuse("TENSORBUS_CUDA_DRIVER=off");
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    refuse(std::string(::dlerror()) +
           ". Install NVIDIA's driver; in a container, use the NVIDIA container runtime");
  return library;  // stays loaded until the process ends
}

std::string dotted(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Set by the first get(), never cleared. Release on write pairs with acquire on read.
std::atomic<const CudaDriver*> initialised{nullptr};
std::atomic<std::uint32_t> initialised_in{0};  // the fork generation
std::atomic<bool> exiting{false};              // relaxed: a thread may see the change late

bool is_child() noexcept {
  return initialised.load(std::memory_order_acquire) != nullptr &&
         initialised_in.load(std::memory_order_relaxed) != platform::fork_generation();
}

}  // namespace

CudaDriver::CudaDriver() {
  void* const library = load_library();
#define TENSORBUS_CUDA_LOOK_UP(name, symbol, parameters)              \
  name = reinterpret_cast<decltype(name)>(::dlsym(library, #symbol)); \
  if ((name) == nullptr)                                              \
    refuse("its driver has no " #symbol ": it is older than CUDA 11.7; install a newer one");
  TENSORBUS_CUDA_FUNCTIONS(TENSORBUS_CUDA_LOOK_UP)
#undef TENSORBUS_CUDA_LOOK_UP
  if (const cu::Result result = Init(0); result != cu::Result::kSuccess)
    refuse("cuInit: " + describe(result) +
           (result == cu::Result::kNoDevice ? ". No device is visible: see CUDA_VISIBLE_DEVICES"
                                            : ""));
  check(DriverGetVersion(&version_), "cuDriverGetVersion");
  if (version_ < kOldestVersion)
    refuse("its driver is for CUDA " + dotted(version_) + "; " + dotted(kOldestVersion) +
           " or newer is needed");
  initialised_in.store(platform::fork_generation(), std::memory_order_relaxed);
  initialised.store(this, std::memory_order_release);
  // Registered after the driver's exit handlers, so that it runs before them.
  std::atexit([] { exiting.store(true, std::memory_order_relaxed); });
}

namespace {

struct Loaded {
  platform::Mutex mutex;
  const CudaDriver* driver TB_GUARDED_BY(mutex) = nullptr;
  std::uint32_t in = platform::fork_generation();
};
platform::Immortal<Loaded> first_loaded;
std::atomic<Loaded*> loaded{&*first_loaded};

// Returns this process's object. A forked child makes its own, because a thread that the child
// lacks may hold the parent's mutex.
Loaded& loaded_here() {
  Loaded* found = loaded.load(std::memory_order_acquire);
  if (found->in == platform::fork_generation()) return *found;
  auto* const fresh = new Loaded;
  // Release and acquire: all threads use the object of the thread that was first.
  if (loaded.compare_exchange_strong(found, fresh, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
    return *fresh;
  delete fresh;
  return *found;
}

}  // namespace

const CudaDriver& CudaDriver::get() {
  if (const CudaDriver* const loaded_before = in_use()) return *loaded_before;
  if (exiting.load(std::memory_order_relaxed))
    throw Error(Code::kClosed, "the process is about to exit and does not call CUDA any more");
  if (is_child())
    throw Error(Code::kForked,
                "CUDA was initialised before this process was forked, and cannot be used in it: "
                "start it with the spawn method, or fork before the first use of CUDA");
  Loaded& here = loaded_here();
  const platform::MutexLock lock(here.mutex);
  if (here.driver == nullptr) here.driver = new CudaDriver;
  return *here.driver;
}

bool CudaDriver::must_be_left_alone() noexcept {
  return is_child() || exiting.load(std::memory_order_relaxed);
}

const CudaDriver* CudaDriver::in_use() noexcept {
  return must_be_left_alone() ? nullptr : initialised.load(std::memory_order_acquire);
}

std::string CudaDriver::describe(cu::Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (GetErrorName(result, &name) != cu::Result::kSuccess || name == nullptr)
    return "CUDA error " + std::to_string(static_cast<int>(result));
  std::string described = name;
  if (GetErrorString(result, &text) == cu::Result::kSuccess && text != nullptr)
    described += std::string(" (") + text + ")";
  return described;
}

void CudaDriver::check(cu::Result result, const std::string& what) const {
  if (result == cu::Result::kSuccess) return;
  const std::string text = what + ": " + describe(result);
  switch (result) {
    case cu::Result::kOutOfMemory:
      throw Error(Code::kOutOfMemory, text + ". The device has no free memory for it");
    case cu::Result::kNotSupported:
    case cu::Result::kNotPermitted:
    case cu::Result::kPeerAccessUnsupported:
      throw Error(Code::kUnsupported, text);
    case cu::Result::kStreamCaptureUnsupported:
    case cu::Result::kStreamCaptureImplicit:
      throw Error(
          Code::kUnsupported,
          text +
              ". The stream is being captured into a graph, or it is the default stream while "
              "another one is captured: publish, receive and release outside of the capture");
    default:
      throw Error(Code::kSystem, text);
  }
}

}  // namespace tensorbus::device
