#include "tensorbus/memory/cuda_imports.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "tensorbus/memory/keepers.hpp"
#include "tensorbus/platform/cuda_foreign.hpp"

namespace tensorbus::memory {
namespace {

// Of a process; never destroyed. In a child CUDA is refused before either is looked at.
struct Tables {
  std::mutex own_mutex;
  std::map<CudaImports::Name, platform::CudaRange> own;
  std::mutex open_mutex;  // held while one is opened
  using Opened = std::tuple<int, std::size_t, std::array<std::byte, 64>>;  // ordinal, bytes, handle
  std::map<Opened, std::weak_ptr<const platform::CudaRange>> open;
};

Tables& tables() {
  static auto* const all = new Tables;
  return *all;
}

// One user's share in what is open.
struct Share : platform::CudaRange {
  explicit Share(CudaImports::Range whole)
      : CudaRange(*whole), kept(1, std::shared_ptr<const void>(std::move(whole))) {}
  ~Share() { Keepers::let_go(std::move(kept)); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  Keepers::Kept kept;
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
  Tables& all = tables();
  const std::lock_guard lock(all.open_mutex);
  std::erase_if(all.open, [](const auto& item) { return item.second.expired(); });
  std::weak_ptr<const platform::CudaRange>& known =
      all.open[{device.ordinal(), bytes, handle.bytes}];
  Range whole = known.lock();
  if (!whole) known = whole = std::make_shared<const platform::CudaOpened>(device, handle, bytes);
  return std::make_shared<const Share>(std::move(whole));
}

CudaImports::Range CudaImports::map(std::span<const platform::CudaAllocation> chunks) {
  Keepers::prepare();
  return std::make_shared<const Share>(
      std::make_shared<const platform::CudaMapping>(chunks, platform::cu::AccessFlags::kRead));
}

}  // namespace tensorbus::memory
