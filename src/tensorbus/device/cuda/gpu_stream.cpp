#include "tensorbus/device/gpu_stream.hpp"

#include <atomic>
#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {
namespace {

// Handles with a fixed meaning (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD).
constexpr std::uintptr_t kLegacy = 1;
constexpr std::uintptr_t kPerThread = 2;

std::atomic<void (*)(const Gpu&)> broken_listener{nullptr};

// Returns true for errors after which a context runs nothing (cuda.h: "the process must be
// terminated").
bool breaks_context(cu::Result result) noexcept {
  const int number = static_cast<int>(result);
  return number == 214 || number == 220 || number == 700 || number == 702 || number == 709 ||
         number == 710 || (number >= 714 && number <= 719) || number == 721;
}

}  // namespace

GpuStream::GpuStream(const Gpu& device, void* stream) noexcept
    : device_(&device), stream_(static_cast<cu::Stream>(stream)) {
  if (reinterpret_cast<std::uintptr_t>(stream) == kLegacy) stream_ = nullptr;
}

void GpuStream::require_usable(const char* for_what) const {
  const GpuScope scope(*device_);
  require_usable_in_scope(for_what);
}

void GpuStream::require_usable_in_scope(const char* for_what) const {
  if (reinterpret_cast<std::uintptr_t>(stream_) == kPerThread)
    throw Error(Code::kUnsupported,
                std::string(for_what) +
                    " is not possible on the per-thread default stream, because each thread has "
                    "its own: make a stream, or use the legacy default stream");
  const CudaDriver& cuda = CudaDriver::get();
  auto status = cu::CaptureStatus::kNone;
  check(cuda.StreamIsCapturing(stream_, &status), "cuStreamIsCapturing");
  if (status == cu::CaptureStatus::kNone) return;
  throw Error(Code::kUnsupported,
              std::string(for_what) +
                  " is not possible on a stream that is being captured into a graph: do it before "
                  "or after the capture, on the stream that the graph is launched on");
}

void GpuStream::check(cu::Result result, const char* what) const {
  if (result == cu::Result::kSuccess) return;
  if (breaks_context(result)) {
    device_->note_broken();
    if (auto* const tell = broken_listener.load(std::memory_order_acquire)) tell(*device_);
  }
  CudaDriver::get().check(result, what);
}

void GpuStream::on_broken_devices(void (*listener)(const Gpu&)) noexcept {
  broken_listener.store(listener, std::memory_order_release);
}

void GpuStream::synchronize() const {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(*device_);
  cuda.check(cuda.StreamSynchronize(stream_), "cuStreamSynchronize");
}

void GpuStream::join(const GpuStream& other) const {
  const CudaDriver& cuda = CudaDriver::get();
  cu::Event event = nullptr;
  cu::Result result{};
  {
    const GpuScope scope(*other.device_);
    cuda.check(cuda.EventCreate(&event, cu::kEventDisableTiming), "cuEventCreate");
    result = cuda.EventRecord(event, other.stream_);
  }
  const GpuScope scope(*device_);
  if (result == cu::Result::kSuccess) result = cuda.StreamWaitEvent(stream_, event, 0);
  (void)cuda.EventDestroy(event);  // the driver keeps an event while a stream waits for it
  cuda.check(result, "cuStreamWaitEvent");
}

void GpuStream::copy(std::byte* target, const std::byte* source, std::size_t bytes) const {
  const auto address = [](const std::byte* byte) {
    return static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(byte));
  };
  check(CudaDriver::get().MemcpyAsync(address(target), address(source), bytes, stream_),
        "cuMemcpyAsync");
}

void GpuStream::call(void (*function)(void*), void* argument) const {
  check(CudaDriver::get().LaunchHostFunc(stream_, function, argument), "cuLaunchHostFunc");
}

void GpuStream::write(cu::DevicePtr counter, std::uint64_t value) const {
  check(CudaDriver::get().StreamWriteValue64(stream_, counter, value, cu::kWriteValueDefault),
        "cuStreamWriteValue64");
}

void GpuStream::wait_for(cu::DevicePtr counter, std::uint64_t value) const {
  check(CudaDriver::get().StreamWaitValue64(stream_, counter, value, cu::kWaitValueGeq),
        "cuStreamWaitValue64");
}

OwnStream::OwnStream(const Gpu& device) : stream_(device) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  cu::Stream stream = nullptr;
  cuda.check(cuda.StreamCreate(&stream, cu::kStreamNonBlocking), "cuStreamCreate");
  stream_ = GpuStream(device, stream);
}

OwnStream::~OwnStream() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  try {
    const GpuScope scope(stream_.device());
    (void)cuda->StreamDestroy(stream_.handle());
  } catch (const Error&) {  // the device is lost
  }
}

HostRegistration::HostRegistration(const Gpu& device, std::span<std::byte> pages)
    : device_(device), pages_(pages) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  cuda.check(cuda.MemHostRegister(pages.data(), pages.size(),
                                  cu::kHostRegisterPortable | cu::kHostRegisterDeviceMap),
             "cuMemHostRegister of " + std::to_string(pages.size()) + " bytes");
  const cu::Result result = cuda.MemHostGetDevicePointer(&address_, pages.data(), 0);
  if (result == cu::Result::kSuccess) return;
  (void)cuda.MemHostUnregister(pages.data());
  cuda.check(result, "cuMemHostGetDevicePointer");
}

HostRegistration::~HostRegistration() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  try {
    const GpuScope scope(device_);  // the call needs a current context in this thread
    (void)cuda->MemHostUnregister(pages_.data());
  } catch (const Error&) {  // the device is lost, and the registration with it
  }
}

cu::DevicePtr HostRegistration::address_of(const void* byte) const noexcept {
  const auto* const first = pages_.data();
  return address_ + static_cast<std::uint64_t>(static_cast<const std::byte*>(byte) - first);
}

}  // namespace tensorbus::device
