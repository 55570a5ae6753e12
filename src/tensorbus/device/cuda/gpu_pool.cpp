#include "tensorbus/device/gpu_pool.hpp"

#include <map>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {
namespace {

// One for each process; never destroyed. A forked child never uses it, because CudaDriver::get()
// throws first.
struct Imported {
  platform::Mutex mutex;  // held while a pool is imported or destroyed
  std::map<cu::MemoryPool, std::size_t> users TB_GUARDED_BY(mutex);
};

platform::Immortal<Imported> imported;

void require(cu::Result result, const Gpu& device, const char* call) {
  if (result == cu::Result::kSuccess) return;
  throw Error(result == cu::Result::kOutOfMemory ? Code::kOutOfMemory : Code::kUnsupported,
              "memory of another process's pool on cuda:" + std::to_string(device.ordinal()) +
                  " cannot be opened here: " + call + ": " + CudaDriver::get().describe(result));
}

// One call for each device, so that only devices that cannot reach the pool fail.
void let_peers_read(const CudaDriver& cuda, const Gpu& device, cu::MemoryPool pool) {
  for (const Gpu* peer : gpu_peers_of(device)) {
    const cu::AccessDesc access{{cu::LocationType::kDevice, peer->ordinal()},
                                cu::AccessFlags::kReadWrite};  // pools support no other access
    (void)cuda.MemPoolSetAccess(pool, &access, 1);
  }
}

}  // namespace

ImportedPool::ImportedPool(const Gpu& device, const platform::Fd& descriptor) : device_(device) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  decltype(Imported::users) one;  // allocated first: no later step must be undone
  one.emplace(nullptr, 0);
  auto node = one.extract(one.begin());
  void* const fd = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  const platform::MutexLock lock(imported->mutex);
  require(cuda.MemPoolImportFromShareableHandle(&handle_, fd, cu::HandleType::kPosixFd, 0), device,
          "cuMemPoolImportFromShareableHandle");
  node.key() = handle_;
  auto& users = imported->users;
  if (++users.insert(std::move(node)).position->second == 1) let_peers_read(cuda, device, handle_);
}

ImportedPool::~ImportedPool() {
  const platform::MutexLock lock(imported->mutex);
  const auto found = imported->users.find(handle_);
  if (--found->second > 0) return;
  imported->users.erase(found);
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  try {
    const GpuScope scope(device_);
    (void)cuda->MemPoolDestroy(handle_);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

PooledMemory::PooledMemory(std::shared_ptr<const ImportedPool> pool,
                           const std::array<std::byte, 64>& name)
    : GpuRange(pool->device(), 0, 0), pool_(std::move(pool)) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(*device_);
  cu::MemPoolPtrExportData data{name};
  require(cuda.MemPoolImportPointer(&address_, pool_->handle(), &data), *device_,
          "cuMemPoolImportPointer");
  const cu::Result result = cuda.MemGetAddressRange(nullptr, &bytes_, address_);
  if (result == cu::Result::kSuccess) return;
  (void)cuda.MemFree(address_);
  require(result, *device_, "cuMemGetAddressRange");
}

PooledMemory::~PooledMemory() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  try {
    const GpuScope scope(*device_);
    (void)cuda->MemFree(address_);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

}  // namespace tensorbus::device
