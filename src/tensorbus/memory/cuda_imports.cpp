#include "tensorbus/memory/cuda_imports.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "tensorbus/memory/keepers.hpp"
#include "tensorbus/memory/open_once.hpp"
#include "tensorbus/platform/cuda_foreign.hpp"
#include "tensorbus/platform/cuda_pool.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {
namespace {

// Of a process; never destroyed. In a child CUDA is refused before either is looked at.
struct Tables {
  std::mutex own_mutex;
  std::map<CudaImports::Name, platform::CudaRange> own;
  using Allocation =
      std::tuple<int, std::size_t, std::array<std::byte, 64>>;  // ordinal, bytes, handle
  OpenOnce<Allocation, platform::CudaOpened> open;
  using Pooled = std::pair<platform::cu::MemoryPool, std::array<std::byte, 64>>;  // name
  OpenOnce<Pooled, platform::CudaPooled> pooled;
};

auto* const all_tables = new Tables;
Tables& tables() { return *all_tables; }

// One user's share in what is open.
struct Share : platform::CudaRange {
  explicit Share(CudaImports::Range whole, std::shared_ptr<const void> afterwards = nullptr)
      : CudaRange(*whole), kept{std::move(whole), std::move(afterwards)} {}
  ~Share() { Keepers::let_go(std::move(kept)); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  Keepers::Kept kept;  // in the order in which they go
};

}  // namespace

CudaImports::Own::Own(const Name& name, const platform::CudaRange& range) : name_(name) {
  const std::lock_guard lock(tables().own_mutex);
  tables().own.insert_or_assign(name, range);
}

CudaImports::Own::~Own() {
  const std::lock_guard lock(tables().own_mutex);
  tables().own.erase(name_);
}

CudaImports::Range CudaImports::find_own(const Name& name) {
  const std::lock_guard lock(tables().own_mutex);
  const auto found = tables().own.find(name);
  if (found == tables().own.end()) return nullptr;
  return std::make_shared<const platform::CudaRange>(found->second);
}

bool CudaImports::is_own(const std::byte* address) noexcept {
  const std::lock_guard lock(tables().own_mutex);
  return std::ranges::any_of(tables().own, [address](const auto& item) {
    const platform::CudaRange& range = item.second;
    return address >= range.data() && address < range.data() + range.size();
  });
}

CudaImports::Range CudaImports::open(const platform::CudaDevice& device,
                                     const platform::cu::IpcMemHandle& handle, std::size_t bytes) {
  Keepers::prepare();
  Range whole = tables().open.find_or_open({device.ordinal(), bytes, handle.bytes}, [&] {
    return platform::CudaOpened(device, handle, bytes);
  });
  return std::make_shared<const Share>(std::move(whole));
}

CudaImports::Range CudaImports::open_pooled(const platform::CudaDevice& device,
                                            const platform::Fd& pool,
                                            const std::array<std::byte, 64>& name,
                                            std::size_t bytes,
                                            std::shared_ptr<const void> afterwards) {
  Keepers::prepare();
  auto imported = std::make_shared<const platform::CudaImportedPool>(device, pool);
  Range whole = tables().pooled.find_or_open({imported->handle(), name},
                                             [&] { return platform::CudaPooled(imported, name); });
  const bool fits = bytes <= whole->size();
  auto share = std::make_shared<const Share>(std::move(whole), std::move(afterwards));
  if (fits) return share;
  throw Error(Code::kProtocol,
              "CUDA_EXPORT.bytes: " + std::to_string(bytes) + ", more than the allocation has");
}

CudaImports::Range CudaImports::map(std::span<const platform::CudaAllocation> chunks) {
  Keepers::prepare();
  return std::make_shared<const Share>(
      std::make_shared<const platform::CudaMapping>(chunks, platform::cu::AccessFlags::kRead));
}

}  // namespace tensorbus::memory
