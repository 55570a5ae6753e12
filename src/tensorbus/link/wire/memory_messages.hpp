#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/values/id.hpp>

#include "tensorbus/link/wire/control.hpp"
#include "tensorbus/memory/segment_id.hpp"

// Messages about the memory that a participant lends: segments, the timeline, pinned blocks.
namespace tensorbus::link {

struct SegmentMessage {
  static constexpr ControlType kType = ControlType::kSegment;
  memory::SegmentId segment = 0;
  std::uint64_t bytes = 0;
  std::uint32_t writable = 0;  // 1: a writable descriptor, for links that requested it
  void visit(auto& archive) { archive(segment, bytes, writable); }
};

// Announces a part of a file as a segment. Other processes may change and truncate the file.
struct FileMessage {
  static constexpr ControlType kType = ControlType::kFile;
  memory::SegmentId segment = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file; a multiple of the page size
  std::uint32_t writable = 0;
  std::string path{};  // for error texts
  void visit(auto& archive) { archive(segment, bytes, offset, writable, path); }
};

// Announces device memory as a segment.
struct DeviceSegment {
  static constexpr ControlType kType = ControlType::kDeviceSegment;
  memory::SegmentId segment = 0;
  std::uint64_t bytes = 0;
  Id device;                   // its UUID
  std::uint32_t writable = 0;  // 1: for links that requested write access
  void visit(auto& archive) { archive(segment, bytes, device, writable); }
};

// Announces device memory of another allocator: a whole allocation, or one of its chunks, in order.
struct DeviceExport {
  static constexpr ControlType kType = ControlType::kDeviceExport;
  memory::SegmentId segment = 0;
  std::uint32_t kind = 0;  // a device::ForeignMemory::Kind
  std::uint64_t bytes = 0;
  Id device;
  std::string handle{};  // of the allocation; or its name in its pool
  std::uint32_t chunk = 0;
  std::uint32_t chunks = 1;
  std::uint64_t chunk_bytes = 0;
  void visit(auto& archive) {
    archive(segment, kind, bytes, device, handle, chunk, chunks, chunk_bytes);
  }
};

using Retired = Notice<ControlType::kRetired, memory::SegmentId>;
using DeviceClosed = Notice<ControlType::kDeviceClosed, memory::SegmentId>;
using TimelineMessage = Notice<ControlType::kTimeline>;

enum class PinVerb : std::uint32_t { kAsk, kGranted, kRefused, kReleased };

// The borrower asks the owner to keep the pages of a block of host memory, and the owner replies.
// The borrower sends kReleased when it no longer needs the pages.
struct Pin {
  static constexpr ControlType kType = ControlType::kPin;
  std::uint32_t verb = 0;  // a PinVerb
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;      // of any byte of the block; repeated in the reply
  std::uint64_t generation = 0;  // repeated in the reply
  std::uint64_t begin = 0;       // of the granted or released pages
  std::uint64_t end = 0;
  void visit(auto& archive) { archive(verb, segment, offset, generation, begin, end); }
};

}  // namespace tensorbus::link
