#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/id.hpp>
#include <vector>

#include "tensorbus/link/wire/control.hpp"
#include "tensorbus/memory/segment_id.hpp"

// Leases by message (docs/protocol.md, section 6). Each side asks and answers; the side that asks
// numbers its requests.
namespace tensorbus::link {

struct Attach {
  static constexpr ControlType kType = ControlType::kAttach;
  std::uint32_t request = 0;
  std::uint64_t share = 0;
  std::uint64_t key = 0;
  std::uint32_t writable = 0;
  void visit(auto& archive) { archive(request, share, key, writable); }
};

// A block of the receiver's arena.
struct BlockName {
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of any byte of it
  std::uint64_t generation = 0;
  void visit(auto& archive) { archive(segment, offset, generation); }
  auto operator<=>(const BlockName&) const = default;
};

struct Claim {
  static constexpr ControlType kType = ControlType::kClaim;
  static constexpr std::size_t kMostBlocks = 200;  // that fit into one message
  std::uint32_t request = 0;
  std::uint32_t writable = 0;
  std::vector<BlockName> blocks;
  void visit(auto& archive) { archive(request, writable, blocks); }
};

// Bytes of a block on a device of the receiver's, which the sender cannot use.
struct Stage {
  static constexpr ControlType kType = ControlType::kStage;
  std::uint32_t request = 0;
  BlockName block;  // by the first byte that is wanted
  std::uint64_t bytes = 0;
  void visit(auto& archive) { archive(request, block, bytes); }
};

// A copy of them in host memory.
struct Staged {
  static constexpr ControlType kType = ControlType::kStaged;
  std::uint32_t request = 0;
  std::uint64_t token = 0;
  BlockName copy;
  std::uint32_t device = 0;  // where they lie: the owner's ordinal
  void visit(auto& archive) { archive(request, token, copy, device); }
};

struct HandOver {
  static constexpr ControlType kType = ControlType::kHandOver;
  std::uint32_t request = 0;
  Id owner;  // who is dead
  memory::SegmentId segment = 0;
  std::uint32_t writable = 0;
  // The lease of the receiver's under which the sender has heard of it. 0: by message.
  std::uint32_t link = 0;
  std::uint64_t token = 0;
  void visit(auto& archive) { archive(request, owner, segment, writable, link, token); }
};

struct Lent {
  static constexpr ControlType kType = ControlType::kLent;
  std::uint32_t request = 0;
  std::uint64_t token = 0;        // 0: a lease on nothing
  std::uint32_t length = 0;       // of the descriptor; 0: there is none
  memory::SegmentId segment = 0;  // where it is, unless it is inline
  std::uint64_t offset = 0;
  std::string inline_bytes{};
  std::uint64_t number = 0;  // of an item of a queue, if task done names it
  std::uint64_t mark = 0;    // packed: it is whole when that is reached
  void visit(auto& archive) {
    archive(request, token, length, segment, offset, inline_bytes, number, mark);
  }
};

struct Handed {
  static constexpr ControlType kType = ControlType::kHanded;
  std::uint32_t request = 0;
  std::uint64_t bytes = 0;
  std::uint32_t is_file = 0;
  std::uint64_t offset = 0;  // of a file, as its path is
  std::string path{};
  Id device{};  // of memory of a GPU: its UUID
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
  std::uint64_t mark = 0;  // packed: it is back when that is reached. Last: see MessageLeaseSource
  void visit(auto& archive) { archive(token, mark); }
};

}  // namespace tensorbus::link
