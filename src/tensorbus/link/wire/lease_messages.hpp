#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/values/id.hpp>
#include <vector>

#include "tensorbus/link/wire/control.hpp"
#include "tensorbus/memory/segment_id.hpp"

// Messages about leases (docs/internals/protocol.md, section 6). Each side sends requests and
// replies; the sender of a request numbers it.
namespace tensorbus::link {

struct Attach {
  static constexpr ControlType kType = ControlType::kAttach;
  std::uint32_t request = 0;
  std::uint64_t share = 0;
  std::uint64_t key = 0;
  std::uint32_t writable = 0;
  void visit(auto& archive) { archive(request, share, key, writable); }
};

// Identifies a block of the receiver's arena.
struct BlockName {
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of any byte of the block
  std::uint64_t generation = 0;
  void visit(auto& archive) { archive(segment, offset, generation); }
  auto operator<=>(const BlockName&) const = default;
};

struct Acquire {
  static constexpr ControlType kType = ControlType::kAcquire;
  static constexpr std::size_t kMaxBlocks = 200;  // as many as fit into one message
  std::uint32_t request = 0;
  std::uint32_t writable = 0;
  std::vector<BlockName> blocks;
  void visit(auto& archive) { archive(request, writable, blocks); }
};

// Requests a copy of bytes that lie on a device of the receiver that the sender cannot use.
struct Stage {
  static constexpr ControlType kType = ControlType::kStage;
  std::uint32_t request = 0;
  BlockName block;  // with the offset of the first byte to copy
  std::uint64_t bytes = 0;
  void visit(auto& archive) { archive(request, block, bytes); }
};

// Replies to STAGE with a copy in host memory.
struct Staged {
  static constexpr ControlType kType = ControlType::kStaged;
  std::uint32_t request = 0;
  std::uint64_t token = 0;
  BlockName copy;
  std::uint32_t device = 0;  // of the original bytes: the owner's ordinal
  void visit(auto& archive) { archive(request, token, copy, device); }
};

struct HandOver {
  static constexpr ControlType kType = ControlType::kHandOver;
  std::uint32_t request = 0;
  Id owner;  // the dead participant that owned the segment
  memory::SegmentId segment = 0;
  std::uint32_t writable = 0;
  // The lease by which the receiver lent the sample. `link` is 0 if it was lent by message.
  std::uint32_t link = 0;
  std::uint64_t token = 0;
  void visit(auto& archive) { archive(request, owner, segment, writable, link, token); }
};

struct Lent {
  static constexpr ControlType kType = ControlType::kLent;
  static constexpr std::size_t kMaxInline = 2048;  // bytes of a descriptor in `inline_bytes`
  std::uint32_t request = 0;
  std::uint64_t token = 0;        // 0: a lease of no memory
  std::uint32_t length = 0;       // of the descriptor; 0: none
  memory::SegmentId segment = 0;  // of the descriptor, unless it is inline
  std::uint64_t offset = 0;
  std::string inline_bytes{};
  std::uint64_t number = 0;  // of a queue item, if task_done() needs it
  std::uint64_t mark = 0;    // packed; when reached, the sample is complete
  void visit(auto& archive) {
    archive(request, token, length, segment, offset, inline_bytes, number, mark);
  }
};

// Requests that the receiver keep a share for processes that attach after the sender has ended.
struct Keep {
  static constexpr ControlType kType = ControlType::kKeep;
  std::uint64_t share = 0;  // number at the receiver: bus::Shares::kKept and random bits
  std::uint64_t key = 0;
  std::uint64_t carrier = 0;  // the object that its handle was sent through; 0: unknown
  std::uint32_t writable = 0;
  std::uint32_t drop = 0;  // 1: it was attached, or no process will attach
  Lent lent{};
  void visit(auto& archive) { archive(share, key, carrier, writable, drop, lent); }
};

struct Handed {
  static constexpr ControlType kType = ControlType::kHanded;
  std::uint32_t request = 0;
  std::uint64_t bytes = 0;
  std::uint32_t is_file = 0;
  std::uint64_t offset = 0;  // only for a file, like `path`
  std::string path{};
  Id device{};  // only for GPU memory: the device's UUID
  void visit(auto& archive) { archive(request, bytes, is_file, offset, path, device); }
};

struct Denied {
  static constexpr ControlType kType = ControlType::kDenied;
  std::uint32_t request = 0;
  std::uint32_t code = 0;  // a tensorbus::Code
  std::string text;
  void visit(auto& archive) { archive(request, code, text); }
};

struct Return {
  static constexpr ControlType kType = ControlType::kReturn;
  std::uint64_t token = 0;
  std::uint64_t mark = 0;  // packed; when reached, the lease ends. Last field: see set_last()
  void visit(auto& archive) { archive(token, mark); }
};

}  // namespace tensorbus::link
