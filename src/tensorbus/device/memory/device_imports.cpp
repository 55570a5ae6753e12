#include "tensorbus/device/memory/device_imports.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tensorbus/device/foreign_memory.hpp"
#include "tensorbus/device/gpu_pool.hpp"
#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/memory/open_once.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/immortal.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {
namespace {

// One for each process; never destroyed. A forked child never uses it, because CudaDriver::get()
// throws first.
struct Tables {
  platform::Mutex own_mutex;
  std::map<DeviceImports::Name, GpuRange> own TB_GUARDED_BY(own_mutex);
  using Allocation = std::pair<int, std::array<std::byte, 64>>;  // ordinal, handle
  memory::OpenOnce<Allocation, OpenedMemory> open;
  using Pooled = std::pair<cu::MemoryPool, std::array<std::byte, 64>>;  // name
  memory::OpenOnce<Pooled, PooledMemory> pooled;
};

platform::Immortal<Tables> tables;

// A user's reference to an open range.
struct Share : GpuRange {
  explicit Share(DeviceImports::Range whole, std::shared_ptr<const void> afterwards = nullptr)
      : GpuRange(*whole), kept{std::move(whole), std::move(afterwards)} {}
  Share(DeviceImports::Range whole, std::size_t bytes) : Share(std::move(whole)) { bytes_ = bytes; }
  ~Share() { DeferredReleaser::let_go(std::move(kept)); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  DeferredReleaser::Kept kept;  // released in this order
};

}  // namespace

DeviceImports::Own::Own(const Name& name, const GpuRange& range) : name_(name) {
  const platform::MutexLock lock(tables->own_mutex);
  tables->own.insert_or_assign(name, range);
}

DeviceImports::Own::~Own() {
  const platform::MutexLock lock(tables->own_mutex);
  tables->own.erase(name_);
}

DeviceImports::Range DeviceImports::find_own(const Name& name) {
  const platform::MutexLock lock(tables->own_mutex);
  const auto found = tables->own.find(name);
  if (found == tables->own.end()) return nullptr;
  return std::make_shared<const GpuRange>(found->second);
}

bool DeviceImports::is_own(const std::byte* address) noexcept {
  const platform::MutexLock lock(tables->own_mutex);
  return std::ranges::any_of(tables->own, [address](const auto& item) {
    const GpuRange& range = item.second;
    return address >= range.data() && address < range.data() + range.size();
  });
}

bool DeviceImports::is_opened(const std::byte* address) {
  return tables->open.any([address](const GpuRange& range) {
    return address >= range.data() && address < range.data() + range.size();
  });
}

namespace {

DeviceImports::Range open_once(const Gpu& device, const cu::IpcMemHandle& handle) {
  DeferredReleaser::prepare();
  return tables->open.find_or_open({device.ordinal(), handle.bytes},
                                   [&] { return OpenedMemory(device, handle); });
}

[[noreturn]] void refuse_size(std::size_t bytes) {
  throw Error(Code::kProtocol,
              "DEVICE_EXPORT.bytes: " + std::to_string(bytes) + ", more than the allocation has");
}

}  // namespace

DeviceImports::Range DeviceImports::open(const Gpu& device, const cu::IpcMemHandle& handle) {
  return std::make_shared<const Share>(open_once(device, handle));
}

DeviceImports::Range DeviceImports::open(const Gpu& device, const cu::IpcMemHandle& handle,
                                         std::size_t bytes) {
  Range whole = open_once(device, handle);
  const bool fits = bytes <= whole->size();
  auto share = std::make_shared<const Share>(std::move(whole), bytes);  // closes it on failure
  if (!fits) refuse_size(bytes);
  return share;
}

DeviceImports::Range DeviceImports::open_pooled(const Gpu& device, const platform::Fd& pool,
                                                const std::array<std::byte, 64>& name,
                                                std::size_t bytes,
                                                std::shared_ptr<const void> afterwards) {
  DeferredReleaser::prepare();
  auto imported = std::make_shared<const ImportedPool>(device, pool);
  Range whole = tables->pooled.find_or_open({imported->handle(), name},
                                            [&] { return PooledMemory(imported, name); });
  const bool fits = bytes <= whole->size();
  auto share = std::make_shared<const Share>(std::move(whole), std::move(afterwards));
  if (!fits) refuse_size(bytes);
  return share;
}

DeviceImports::Range DeviceImports::map(std::span<const GpuAllocation> chunks) {
  DeferredReleaser::prepare();
  return std::make_shared<const Share>(
      std::make_shared<const GpuMapping>(chunks, cu::AccessFlags::kRead));
}

}  // namespace tensorbus::device
