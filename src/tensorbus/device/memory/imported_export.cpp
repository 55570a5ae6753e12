#include "tensorbus/device/memory/imported_export.hpp"

#include <array>
#include <cstring>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {
namespace {

using Kind = ForeignMemory::Kind;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 44;
using HandleBytes = std::array<std::byte, 64>;
constexpr std::size_t kHandleBytes = sizeof(HandleBytes);

[[noreturn]] void refuse(const std::string& field, std::uint64_t value) {
  throw Error(Code::kProtocol, "DEVICE_EXPORT." + field + ": " + std::to_string(value));
}

bool is(Kind kind, const ExportPart& part) { return part.kind == static_cast<std::uint32_t>(kind); }

}  // namespace

ImportedExport::ImportedExport(const Id& owner, bool ours, ExportPart first)
    : name_{owner, first.segment}, ours_(ours) {
  add(std::move(first));
}

void ImportedExport::require_sense(const ExportPart& part) const {
  const bool in_chunks = is(Kind::kChunks, part);
  if (!in_chunks && !is(Kind::kLegacy, part) && !is(Kind::kPool, part)) refuse("kind", part.kind);
  if (part.bytes == 0 || part.bytes > kMaxBytes) refuse("bytes", part.bytes);
  const std::size_t handle_bytes = in_chunks ? 0 : kHandleBytes;
  if (part.handle.size() != handle_bytes) refuse("handle", part.handle.size());
  const std::uint32_t most = in_chunks ? ForeignMemory::kMaxChunks : 1;
  if (part.chunks == 0 || part.chunks > most) refuse("chunks", part.chunks);
  if (part.chunk != next_) refuse("chunk", part.chunk);
  if (static_cast<bool>(part.fd) == is(Kind::kLegacy, part)) refuse("descriptors", part.fd ? 1 : 0);
  if (!in_chunks) return;
  if (part.chunk > 0 && (part.kind != first_part_.kind || part.bytes != first_part_.bytes ||
                         part.chunks != first_part_.chunks || part.device != first_part_.device))
    refuse("chunk", part.chunk);
  const std::uint64_t left = part.bytes - chunk_bytes_;
  const bool last = part.chunk + 1 == part.chunks;
  if (part.chunk_bytes == 0 || (last ? part.chunk_bytes != left : part.chunk_bytes >= left))
    refuse("chunk_bytes", part.chunk_bytes);
}

bool ImportedExport::is_pooled() const noexcept { return is(Kind::kPool, first_part_); }

void ImportedExport::add(ExportPart next) {
  if (next.chunk == 0 && next_ > 0 && !complete()) {
    next_ = 0;
    chunk_bytes_ = 0;
    fds_.clear();
    sizes_.clear();
  }
  if (next_ > 0 && complete()) refuse("segment", next.segment.number);
  require_sense(next);
  if (next.fd) {
    fds_.push_back(std::move(next.fd));
    sizes_.push_back(next.chunk_bytes);
  }
  chunk_bytes_ += next.chunk_bytes;
  ++next_;
  if (next_ == 1) first_part_ = std::move(next);
}

DeviceImports::Range ImportedExport::open() {
  if (!complete()) return nullptr;
  if (ours_)
    if (DeviceImports::Range own = DeviceImports::find_own(name_)) return own;
  const Gpu& device = Gpu::seen(first_part_.device);
  if (first_part_.bytes > device.total_bytes()) refuse("bytes", first_part_.bytes);
  DeviceImports::Range range = open_at(device);
  fds_.clear();
  return range;
}

DeviceImports::Range ImportedExport::open_at(const Gpu& device) const {
  HandleBytes handle{};
  std::memcpy(handle.data(), first_part_.handle.data(), first_part_.handle.size());
  if (is(Kind::kLegacy, first_part_))
    return DeviceImports::open(device, {handle}, first_part_.bytes);
  if (is(Kind::kPool, first_part_))
    return DeviceImports::open_pooled(device, fds_.front(), handle, first_part_.bytes,
                                      after_closing_);
  std::vector<GpuAllocation> chunks;
  for (std::size_t i = 0; i < fds_.size(); ++i) chunks.emplace_back(device, fds_[i], sizes_[i]);
  return DeviceImports::map(chunks);
}

}  // namespace tensorbus::device
