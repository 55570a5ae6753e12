#include "tensorbus/device/foreign_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {
namespace {

// The driver's attributes of an address. The driver writes 1, 4 or 8 bytes of each field.
struct Facts {
  std::uint64_t type = 0;
  std::uint64_t managed = 0;
  std::uint64_t ordinal = 0;
  std::uint64_t buffer_id = 0;
  std::uint64_t legacy = 0;
  std::uint64_t handle_types = 0;
  std::uint64_t pool = 0;
  std::uint64_t mapping = 0;
  std::uint64_t mapping_bytes = 0;
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;

  bool is_memory() const noexcept {
    return type == static_cast<std::uint64_t>(cu::MemoryType::kDevice);
  }
  bool is_memory_of(const Gpu& device) const noexcept {
    return is_memory() && managed == 0 && static_cast<int>(ordinal) == device.ordinal();
  }
  bool has_descriptor() const noexcept {
    return pool == 0 && (handle_types & static_cast<std::uint64_t>(cu::HandleType::kPosixFd)) != 0;
  }
};

// Returns 0 for attributes that the driver does not have.
Facts facts_of(cu::DevicePtr address) {
  using enum cu::PointerAttribute;
  Facts facts;
  std::array wanted{kMemoryType,         kIsManaged,          kDeviceOrdinal, kBufferId,
                    kIsLegacyIpcCapable, kAllowedHandleTypes, kMempoolHandle, kMappingBase,
                    kMappingSize,        kRangeStart,         kRangeSize};
  std::array<void*, 11> found{&facts.type,      &facts.managed, &facts.ordinal,
                              &facts.buffer_id, &facts.legacy,  &facts.handle_types,
                              &facts.pool,      &facts.mapping, &facts.mapping_bytes,
                              &facts.start,     &facts.bytes};
  static_assert(wanted.size() == found.size());
  const cu::Result result = CudaDriver::get().PointerGetAttributes(
      static_cast<unsigned>(wanted.size()), wanted.data(), found.data(), address);
  return result == cu::Result::kSuccess ? facts : Facts();
}

}  // namespace

int ForeignMemory::ordinal_of(const std::byte* address) {
  return Gpu::all().empty() ? -1 : ordinal_of(address, Gpu::at(0));
}

int ForeignMemory::ordinal_of(const std::byte* address, const Gpu& asked) {
  const GpuScope scope(asked);
  const Facts facts = facts_of(reinterpret_cast<cu::DevicePtr>(address));
  return facts.is_memory() ? static_cast<int>(facts.ordinal) : -1;
}

std::string ForeignMemory::why_no_handle(const Gpu& device, const std::byte* address) {
  const GpuScope scope(device);
  const Facts facts = facts_of(reinterpret_cast<cu::DevicePtr>(address));
  if (facts.managed != 0) return "it is managed memory (cudaMallocManaged)";
  if (facts.pool != 0) return "it is memory of a pool (cudaMallocAsync)";
  cu::AllocationHandle chunk = 0;
  if (CudaDriver::get().MemRetainAllocationHandle(&chunk, const_cast<std::byte*>(address)) !=
      cu::Result::kSuccess)
    return "the driver has none for it, for example because a handle opened it";
  (void)CudaDriver::get().MemRelease(chunk);
  return "it is virtual memory (cuMemCreate: PyTorch's expandable segments, or memory of the bus)";
}

std::optional<ForeignMemory> ForeignMemory::around(const Gpu& device, const std::byte* first,
                                                   std::size_t bytes) {
  const GpuScope scope(device);
  const auto address = reinterpret_cast<cu::DevicePtr>(first);
  const Facts facts = facts_of(address);
  if (!facts.is_memory_of(device)) return std::nullopt;
  if (facts.pool != 0) return pooled_around(device, address, bytes);
  if (facts.legacy != 0) return allocation_around(device, address, bytes, facts.buffer_id);
  if (facts.has_descriptor()) return chunks_around(device, address, bytes);
  return std::nullopt;
}

std::optional<ForeignMemory> ForeignMemory::allocation_around(const Gpu& device,
                                                              cu::DevicePtr address,
                                                              std::size_t bytes,
                                                              std::uint64_t buffer_id) {
  cu::DevicePtr base = 0;
  std::size_t size = 0;
  if (CudaDriver::get().MemGetAddressRange(&base, &size, address) != cu::Result::kSuccess ||
      buffer_id == 0 || address < base || address - base > size || bytes > size - (address - base))
    return std::nullopt;
  ForeignMemory found(Kind::kLegacy, {device, base, size});
  found.buffer_id_ = buffer_id;
  return found;
}

// An allocation is exported by its first byte. If two driver calls return different first bytes or
// sizes, the memory is refused, because other processes might get adjacent memory.
std::optional<ForeignMemory> ForeignMemory::pooled_around(const Gpu& device, cu::DevicePtr address,
                                                          std::size_t bytes) {
  const Facts facts = facts_of(address);
  cu::DevicePtr base = 0;
  std::size_t size = 0;
  if (CudaDriver::get().MemGetAddressRange(&base, &size, address) != cu::Result::kSuccess ||
      base != facts.start || size != facts.bytes || address < base || address - base > size ||
      bytes > size - (address - base))
    return std::nullopt;
  ForeignMemory found(Kind::kPool, {device, base, size});
  found.buffer_id_ = facts.buffer_id;
  found.from_ = reinterpret_cast<cu::MemoryPool>(facts.pool);
  return found;
}

std::optional<ForeignMemory> ForeignMemory::chunks_around(const Gpu& device, cu::DevicePtr address,
                                                          std::size_t bytes) {
  const CudaDriver& cuda = CudaDriver::get();
  std::vector<Chunk> chunks;
  cu::DevicePtr next = address;
  do {
    const Facts facts = facts_of(next);
    const bool starts_there = chunks.empty() ? facts.mapping <= next : facts.mapping == next;
    if (!facts.is_memory_of(device) || !facts.has_descriptor() || !starts_there ||
        next - facts.mapping >= facts.mapping_bytes || chunks.size() == kMaxChunks)
      return std::nullopt;
    cu::AllocationHandle handle = 0;
    if (cuda.MemRetainAllocationHandle(&handle, reinterpret_cast<void*>(facts.mapping)) !=
        cu::Result::kSuccess)
      return std::nullopt;
    chunks.push_back({facts.mapping, facts.buffer_id, {device, handle, facts.mapping_bytes}});
    next = facts.mapping + facts.mapping_bytes;
  } while (next < address + bytes);
  const cu::DevicePtr base = chunks.front().base;
  ForeignMemory found(Kind::kChunks, {device, base, next - base});
  found.chunks_ = std::move(chunks);
  return found;
}

bool ForeignMemory::make_shareable() {
  const GpuScope scope(range_.device());
  if (kind_ == Kind::kPool) return make_pool_shareable();
  if (kind_ == Kind::kLegacy) {
    cu::IpcMemHandle handle;
    const cu::Result result = CudaDriver::get().IpcGetMemHandle(&handle, range_.address());
    handle_ = handle.bytes;
    return result == cu::Result::kSuccess;
  }
  try {
    for (const Chunk& chunk : chunks_) (void)chunk.allocation.descriptor();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The first call fails for the default pools.
bool ForeignMemory::make_pool_shareable() {
  const CudaDriver& cuda = CudaDriver::get();
  int fd = -1;
  if (cuda.MemPoolExportToShareableHandle(&fd, from_, cu::HandleType::kPosixFd, 0) !=
      cu::Result::kSuccess)
    return false;
  pool_ = platform::Fd(fd);
  cu::MemPoolPtrExportData name;
  if (cuda.MemPoolExportPointer(&name, range_.address()) != cu::Result::kSuccess) return false;
  handle_ = name.bytes;
  return true;
}

bool ForeignMemory::holds(const ForeignMemory& other) const {
  if (kind_ != other.kind_ || &range_.device() != &other.range_.device()) return false;
  if (kind_ != Kind::kChunks)
    return buffer_id_ == other.buffer_id_ && range_.address() == other.range_.address() &&
           range_.size() == other.range_.size();
  return std::search(chunks_.begin(), chunks_.end(), other.chunks_.begin(), other.chunks_.end()) !=
         chunks_.end();
}

bool ForeignMemory::replaces(const ForeignMemory& other) const {
  const auto end = [](const Chunk& chunk) { return chunk.base + chunk.allocation.bytes(); };
  const GpuRange& theirs = other.range_;
  if (&range_.device() != &theirs.device() || range_.data() >= theirs.data() + theirs.size() ||
      theirs.data() >= range_.data() + range_.size())
    return false;
  if (kind_ != Kind::kChunks || other.kind_ != Kind::kChunks) return !holds(other);
  for (const Chunk& one : chunks_)
    for (const Chunk& two : other.chunks_)
      if (one.base < end(two) && two.base < end(one) && !(one == two)) return true;
  return false;
}

bool ForeignMemory::there() const noexcept {
  try {
    const GpuScope scope(range_.device());
    if (kind_ != Kind::kChunks) return facts_of(range_.address()).buffer_id == buffer_id_;
    return std::all_of(chunks_.begin(), chunks_.end(), [](const Chunk& chunk) {
      const Facts facts = facts_of(chunk.base);
      return facts.buffer_id == chunk.buffer_id && facts.mapping == chunk.base &&
             facts.mapping_bytes == chunk.allocation.bytes();
    });
  } catch (const Error&) {  // the device is lost
    return false;
  }
}

namespace {

HandleRefused::Why reason_of(cu::Result result) noexcept {
  switch (result) {
    case cu::Result::kInvalidContext:  // our context is current, so the handle is the cause
      return HandleRefused::Why::kOwn;
    case cu::Result::kInvalidValue:
    case cu::Result::kMapFailed:
    case cu::Result::kInvalidHandle:
      return HandleRefused::Why::kGone;
    case cu::Result::kInvalidDevice:
    case cu::Result::kPeerAccessUnsupported:
    case cu::Result::kTooManyPeers:
      return HandleRefused::Why::kOutOfReach;
    default:
      return HandleRefused::Why::kOther;
  }
}

}  // namespace

HandleRefused::HandleRefused(const Gpu& device, cu::Result result)
    : Error(
          result == cu::Result::kOutOfMemory ? Code::kOutOfMemory : Code::kUnsupported,
          "memory of another process on cuda:" + std::to_string(device.ordinal()) +
              " cannot be opened here: cuIpcOpenMemHandle: " + CudaDriver::get().describe(result)),
      why_(reason_of(result)) {}

// The driver may place a small allocation in a larger block; it then reports the block's range.
OpenedMemory::OpenedMemory(const Gpu& device, const cu::IpcMemHandle& handle)
    : GpuRange(device, 0, 0) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  cu::Result result = cuda.IpcOpenMemHandle(&address_, handle, cu::kIpcLazyPeerAccess);
  if (result != cu::Result::kSuccess) throw HandleRefused(device, result);
  cu::DevicePtr base = 0;
  result = cuda.MemGetAddressRange(&base, &bytes_, address_);
  if (result == cu::Result::kSuccess && base <= address_ && address_ - base <= bytes_) {
    bytes_ -= address_ - base;
    return;
  }
  (void)cuda.IpcCloseMemHandle(address_);
  throw HandleRefused(device, result);
}

OpenedMemory::~OpenedMemory() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  try {
    const GpuScope scope(*device_);
    (void)cuda->IpcCloseMemHandle(address_);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

}  // namespace tensorbus::device
