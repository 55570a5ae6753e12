#include "tensorbus/device/gpu.hpp"

#include <array>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

Gpu::Gpu(int ordinal) : ordinal_(ordinal) {
  const CudaDriver& cuda = CudaDriver::get();
  const std::string which = " of device " + std::to_string(ordinal);
  cuda.check(cuda.DeviceGet(&handle_, ordinal), "cuDeviceGet" + which);
  cuda.check(cuda.DeviceGetUuid(&uuid_, handle_), "cuDeviceGetUuid" + which);
  std::array<char, 256> name{};
  cuda.check(cuda.DeviceGetName(name.data(), name.size() - 1, handle_), "cuDeviceGetName" + which);
  name_ = name.data();
  cuda.check(cuda.DeviceTotalMem(&total_bytes_, handle_), "cuDeviceTotalMem" + which);
}

std::vector<const Gpu*> Gpu::look() {
  const CudaDriver& cuda = CudaDriver::get();
  int count = 0;
  cuda.check(cuda.DeviceGetCount(&count), "cuDeviceGetCount");
  std::vector<const Gpu*> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) devices.push_back(new Gpu(ordinal));
  return devices;
}

const std::vector<const Gpu*>& Gpu::all() {
  (void)CudaDriver::get();  // throws in a forked child of the process that called this first
  static const auto& devices = *new std::vector<const Gpu*>(look());
  return devices;
}

const Gpu& Gpu::at(int ordinal) {
  const auto& devices = all();
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size())
    throw Error(Code::kInvalidArgument,
                "there is no device cuda:" + std::to_string(ordinal) + ": this process sees " +
                    std::to_string(devices.size()) + " (CUDA_VISIBLE_DEVICES)");
  return *devices[static_cast<std::size_t>(ordinal)];
}

const Gpu* Gpu::find(const cu::Uuid& uuid) {
  for (const Gpu* device : all())
    if (device->uuid() == uuid) return device;
  return nullptr;
}

const Gpu& Gpu::seen(const cu::Uuid& uuid) {
  if (const Gpu* const device = find(uuid)) return *device;
  throw Error(Code::kUnsupported, "the tensor lies on device " + text_of(uuid) +
                                      ", which this process does not see "
                                      "(CUDA_VISIBLE_DEVICES)");
}

int Gpu::attribute(cu::DeviceAttribute attribute) const {
  int value = 0;
  const cu::Result result = CudaDriver::get().DeviceGetAttribute(&value, attribute, handle_);
  return result == cu::Result::kSuccess ? value : 0;
}

cu::Context Gpu::context() const {
  const CudaDriver& cuda = CudaDriver::get();
  if (const cu::Context known = context_.load(std::memory_order_relaxed)) return known;
  static platform::Mutex mutex;
  const platform::MutexLock lock(mutex);
  cu::Context context = context_.load(std::memory_order_relaxed);
  if (context != nullptr) return context;
  cuda.check(cuda.DevicePrimaryCtxRetain(&context, handle_),
             "cuDevicePrimaryCtxRetain of device " + std::to_string(ordinal_));
  context_.store(context, std::memory_order_relaxed);
  return context;
}

std::string text_of(const cu::Uuid& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid.bytes[i] >> 4];
    text += kDigits[uuid.bytes[i] & 15];
  }
  return text;
}

GpuScope::GpuScope(const Gpu& device) : cuda_(CudaDriver::get()) {
  cuda_.check(cuda_.CtxPushCurrent(device.context()),
              "cuCtxPushCurrent of device " + std::to_string(device.ordinal()));
  (void)cuda_.ThreadExchangeStreamCaptureMode(&mode_);
}

GpuScope::~GpuScope() {
  (void)cuda_.ThreadExchangeStreamCaptureMode(&mode_);
  cu::Context ours = nullptr;
  (void)cuda_.CtxPopCurrent(&ours);
}

}  // namespace tensorbus::device
