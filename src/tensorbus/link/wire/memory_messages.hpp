#pragma once

#include <cstdint>
#include <string>
#include <tensorbus/id.hpp>

#include "tensorbus/link/wire/control.hpp"
#include "tensorbus/memory/segment_id.hpp"

// The memory that one participant lends another: segments, the timeline, pinned blocks.
namespace tensorbus::link {

struct SegmentMessage {
  static constexpr ControlType kType = ControlType::kSegment;
  memory::SegmentId segment = 0;
  std::uint64_t bytes = 0;
  std::uint32_t writable = 0;  // 1: the descriptor is, for links that asked for it; 0: for others
  void visit(auto& archive) { archive(segment, bytes, writable); }
};

// In place of a SEGMENT: part of a file, which others may change, and cut short.
struct FileMessage {
  static constexpr ControlType kType = ControlType::kFile;
  memory::SegmentId segment = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file; a multiple of the page
  std::uint32_t writable = 0;
  std::string path{};  // for messages
  void visit(auto& archive) { archive(segment, bytes, offset, writable, path); }
};

// In place of a SEGMENT: memory of a device.
struct DeviceSegment {
  static constexpr ControlType kType = ControlType::kDeviceSegment;
  memory::SegmentId segment = 0;
  std::uint64_t bytes = 0;
  Id device;                   // its UUID
  std::uint32_t writable = 0;  // 1: by those who asked to write
  void visit(auto& archive) { archive(segment, bytes, device, writable); }
};

// The same of memory that another allocator made: an allocation, or one of its chunks, in order.
struct DeviceExport {
  static constexpr ControlType kType = ControlType::kDeviceExport;
  memory::SegmentId segment = 0;
  std::uint32_t kind = 0;  // a platform::ForeignMemory::Kind
  std::uint64_t bytes = 0;
  Id device;
  std::string handle{};  // of an allocation, or its name in its pool
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

// The borrower asks for a block of host memory to keep its pages, and the owner answers; the
// borrower says when it needs that no longer.
struct Pin {
  static constexpr ControlType kType = ControlType::kPin;
  std::uint32_t verb = 0;  // a PinVerb
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;      // of any byte of the block, as it was asked
  std::uint64_t generation = 0;  // the same
  std::uint64_t begin = 0;       // what was granted, or is released: whole pages
  std::uint64_t end = 0;
  void visit(auto& archive) { archive(verb, segment, offset, generation, begin, end); }
};

}  // namespace tensorbus::link
