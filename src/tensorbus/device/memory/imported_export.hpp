#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/device/foreign_memory.hpp"
#include "tensorbus/device/memory/device_imports.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::device {

// One message of an owner's description of another allocator's memory. A description has one
// message, or one for each chunk.
struct ExportPart {
  memory::SegmentId segment = 0;
  std::uint32_t kind = 0;  // a ForeignMemory::Kind
  std::uint64_t bytes = 0;
  GpuUuid device{};
  std::string handle{};     // of an allocation, or its name in its pool
  std::uint32_t chunk = 0;  // the index of this chunk among `chunks`
  std::uint32_t chunks = 1;
  std::uint64_t chunk_bytes = 0;
  platform::Fd fd{};  // of the chunk or the pool
};

// Collects the parts of a description, and opens the memory when open() is called. Not thread-safe.
class ImportedExport {
 public:
  // Throws Error(kProtocol) for a part that is not the first or has impossible values. `ours`: the
  // owner is a participant of this process.
  ImportedExport(const Id& owner, bool ours, ExportPart first);

  // Adds a part. Throws Error(kProtocol) unless it is the next one. A first part restarts an
  // incomplete description: the owner may have stopped because a resource ran out.
  void add(ExportPart next);
  std::size_t descriptors() const noexcept { return fds_.size(); }
  bool is_pooled() const noexcept;
  // Releases `released` after this object's destructor has closed the opened memory.
  void release_after_closing(std::shared_ptr<const void> released) noexcept {
    after_closing_ = std::move(released);
  }
  // Called if the memory will not be opened.
  void drop_descriptors() noexcept { fds_.clear(); }

  // Returns null while parts are missing. Throws what ImportedMemory::find() throws.
  DeviceImports::Range open();

 private:
  void require_sense(const ExportPart& part) const;
  bool complete() const noexcept { return next_ == first_part_.chunks; }
  DeviceImports::Range open_at(const Gpu& device) const;

  const DeviceImports::Name name_;
  const bool ours_;
  ExportPart first_part_;
  std::uint32_t next_ = 0;         // the next chunk
  std::uint64_t chunk_bytes_ = 0;  // of the received chunks
  std::vector<platform::Fd> fds_;
  std::vector<std::uint64_t> sizes_;
  std::shared_ptr<const void> after_closing_;
};

}  // namespace tensorbus::device
