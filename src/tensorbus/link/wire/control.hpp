#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tensorbus/id.hpp>
#include <utility>
#include <vector>

#include "tensorbus/link/wire/control_fields.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/error.hpp"

// The control messages of docs/protocol.md, section 2. Each lists its fields once, in visit(),
// which serves writing and reading alike.
namespace tensorbus::link {

inline constexpr std::uint32_t kControlMagic = 0x73756274;  // "tbus"
inline constexpr std::uint16_t kProtocolVersion = 4;
// Of what processes share in memory: links, wake pages, descriptors of samples, timelines.
inline constexpr std::uint32_t kLayoutVersion = 1;
inline constexpr std::size_t kMaxControlBytes = 4096;
inline constexpr std::size_t kMaxControlFds = 3;
inline constexpr std::size_t kMostDefinition = 1800;  // bytes, beside the longest topic

enum class ControlType : std::uint16_t {
  kHello = 1,
  kSubscribe = 2,
  kAccepted = 3,
  kRefused = 4,
  kSegment = 5,
  kRetired = 6,
  kEnded = 7,
  kUnsubscribe = 8,
  kDone = 9,
  kEvent = 10,
  kAttach = 11,
  kClaim = 12,
  kHandOver = 13,
  kLent = 14,
  kHanded = 15,
  kDenied = 16,
  kReturn = 17,
  kPut = 18,
  kGet = 19,
  kQueue = 20,
  kCancel = 21,
  kReply = 22,
  kFile = 23,
  kDeviceSegment = 24,
  kTimeline = 25,
  kDeviceExport = 26,
  kStage = 27,
  kPin = 29,
  kStaged = 30,
  kDeviceClosed = 31,
  kTake = 32,
};

struct ControlHeader {
  std::uint32_t magic = kControlMagic;
  ControlType type = ControlType::kHello;
  std::uint16_t version = kProtocolVersion;
  std::uint32_t length = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(ControlHeader) == 16);

// Descriptors: wake page, then the sender's pidfd if has_pidfd, then its lineage, or none.
struct Hello {
  static constexpr ControlType kType = ControlType::kHello;
  Id id;
  std::uint32_t pid = 0;
  std::uint32_t wake_slots = 0;
  std::uint32_t has_pidfd = 0;
  std::uint32_t layout = kLayoutVersion;
  void visit(auto& archive) { archive(id, pid, wake_slots, has_pidfd, layout); }
};

struct Subscribe {  // descriptor: a notifier's sender, or none
  static constexpr ControlType kType = ControlType::kSubscribe;
  std::uint32_t link = 0;
  std::uint32_t publisher = 0;
  std::uint32_t depth = 0;  // 0: as the publisher prefers
  std::uint32_t max_held = 0;
  std::uint32_t wake_slot = 0;
  std::uint32_t writable = 0;     // 1: the memory of samples is to be written, too
  std::uint64_t fingerprint = 0;  // of the type; 0: any message
  std::string topic;
  std::string type{};  // its definition, or its name if that is longer than kMostDefinition
  void visit(auto& archive) {
    archive(link, publisher, depth, max_held, wake_slot, writable, fingerprint, topic, type);
  }
};

struct Accepted {  // descriptor: the link segment
  static constexpr ControlType kType = ControlType::kAccepted;
  std::uint32_t link = 0;
  std::uint32_t slots = 0;
  std::uint32_t returns = 0;
  std::uint32_t max_held = 0;
  std::uint32_t wake_slot = 0;
  std::uint32_t reliable = 0;
  std::uint64_t next_sequence = 0;  // of the first sample this link is to get
  void visit(auto& archive) {
    archive(link, slots, returns, max_held, wake_slot, reliable, next_sequence);
  }
};

struct Refused {
  static constexpr ControlType kType = ControlType::kRefused;
  std::uint32_t link = 0;
  std::uint32_t code = 0;  // a tensorbus::Code
  std::string text;
  void visit(auto& archive) { archive(link, code, text); }
};

struct SegmentMessage {  // descriptor: the segment
  static constexpr ControlType kType = ControlType::kSegment;
  std::uint32_t segment = 0;
  std::uint64_t bytes = 0;
  std::uint32_t writable = 0;  // 1: the descriptor is, for links that asked for it; 0: for others
  void visit(auto& archive) { archive(segment, bytes, writable); }
};

// In place of a SEGMENT: part of a file, which others may change, and cut short.
struct FileMessage {  // descriptor: the file
  static constexpr ControlType kType = ControlType::kFile;
  std::uint32_t segment = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file; a multiple of the page
  std::uint32_t writable = 0;
  std::string path{};  // for messages
  void visit(auto& archive) { archive(segment, bytes, offset, writable, path); }
};

// In place of a SEGMENT: memory of a device.
struct DeviceSegment {  // descriptor: the allocation
  static constexpr ControlType kType = ControlType::kDeviceSegment;
  std::uint32_t segment = 0;
  std::uint64_t bytes = 0;
  Id device;                   // its UUID
  std::uint32_t writable = 0;  // 1: by those who asked to write
  void visit(auto& archive) { archive(segment, bytes, device, writable); }
};

// The same of memory that another allocator made: an allocation, or one of its chunks, in order.
struct DeviceExport {  // descriptor: the chunk, or the pool that the allocation is of
  static constexpr ControlType kType = ControlType::kDeviceExport;
  std::uint32_t segment = 0;
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

// A message that names one link or segment and says no more.
template <ControlType kOf>
struct Notice {
  static constexpr ControlType kType = kOf;
  std::uint32_t number = 0;
  void visit(auto& archive) { archive(number); }
};
using Retired = Notice<ControlType::kRetired>;
using DeviceClosed = Notice<ControlType::kDeviceClosed>;
using Ended = Notice<ControlType::kEnded>;
using Unsubscribe = Notice<ControlType::kUnsubscribe>;
using Done = Notice<ControlType::kDone>;
using Event = Notice<ControlType::kEvent>;               // descriptor: a notifier's sender
using TimelineMessage = Notice<ControlType::kTimeline>;  // descriptor: its memory

enum class PinVerb : std::uint32_t { kAsk, kGranted, kRefused, kReleased };

// The borrower asks for a block of host memory to keep its pages, and the owner answers; the
// borrower says when it needs that no longer.
struct Pin {
  static constexpr ControlType kType = ControlType::kPin;
  std::uint32_t verb = 0;  // a PinVerb
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;      // of any byte of the block, as it was asked
  std::uint64_t generation = 0;  // the same
  std::uint64_t begin = 0;       // what was granted, or is released: whole pages
  std::uint64_t end = 0;
  void visit(auto& archive) { archive(verb, segment, offset, generation, begin, end); }
};

// What follows is asked and answered by either side; whoever asks numbers the requests.

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
  std::uint32_t segment = 0;
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
  void visit(auto& archive) {
    archive(request);
    block.visit(archive);
    archive(bytes);
  }
};

// A copy of them in host memory.
struct Staged {
  static constexpr ControlType kType = ControlType::kStaged;
  std::uint32_t request = 0;
  std::uint64_t token = 0;
  BlockName copy;
  std::uint32_t device = 0;  // where they lie: the owner's ordinal
  void visit(auto& archive) {
    archive(request, token);
    copy.visit(archive);
    archive(device);
  }
};

struct HandOver {
  static constexpr ControlType kType = ControlType::kHandOver;
  std::uint32_t request = 0;
  Id owner;  // who is dead
  std::uint32_t segment = 0;
  std::uint32_t writable = 0;
  // The lease of the receiver's under which the sender has heard of it. 0: by message.
  std::uint32_t link = 0;
  std::uint64_t token = 0;
  void visit(auto& archive) { archive(request, owner, segment, writable, link, token); }
};

struct Lent {
  static constexpr ControlType kType = ControlType::kLent;
  std::uint32_t request = 0;
  std::uint64_t token = 0;    // 0: a lease on nothing
  std::uint32_t length = 0;   // of the descriptor; 0: there is none
  std::uint32_t segment = 0;  // where it is, unless it is inline
  std::uint64_t offset = 0;
  std::string inline_bytes{};
  std::uint64_t number = 0;  // of an item of a queue, if task done names it
  std::uint64_t mark = 0;    // packed: it is whole when that is reached
  void visit(auto& archive) {
    archive(request, token, length, segment, offset, inline_bytes, number, mark);
  }
};

struct Handed {  // descriptor: the segment
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

// A queue of the receiver's.
struct QueueName {
  std::uint64_t number = 0;
  std::uint64_t key = 0;
  void visit(auto& archive) { archive(number, key); }
  bool operator==(const QueueName&) const = default;
};

struct Put {
  static constexpr ControlType kType = ControlType::kPut;
  static constexpr std::uint32_t kWait = 1;  // for room
  std::uint32_t request = 0;
  QueueName queue;
  std::uint32_t flags = 0;
  Lent lent;
  void visit(auto& archive) {
    archive(request);
    queue.visit(archive);
    archive(flags);
    lent.visit(archive);
  }
};

struct Get {
  static constexpr ControlType kType = ControlType::kGet;
  static constexpr std::uint32_t kWait = 1;  // for an item
  std::uint32_t request = 0;
  QueueName queue;
  std::uint32_t flags = 0;
  void visit(auto& archive) {
    archive(request);
    queue.visit(archive);
    archive(flags);
  }
};

// The getter accepts the item that it was offered.
struct Take {
  static constexpr ControlType kType = ControlType::kTake;
  std::uint32_t request = 0;  // of the GET
  QueueName queue;
  std::uint32_t spoilt = 0;  // 1: the memory of the item is gone, and no getter can have it
  void visit(auto& archive) {
    archive(request);
    queue.visit(archive);
    archive(spoilt);
  }
};

enum class QueueVerb : std::uint32_t { kOpen, kState, kTaskDone, kJoin, kClose };

struct QueueCall {
  static constexpr ControlType kType = ControlType::kQueue;
  std::uint32_t request = 0;
  QueueName queue;
  std::uint32_t verb = 0;    // a QueueVerb
  std::uint64_t number = 0;  // of the item that is done; 0: it has none
  void visit(auto& archive) {
    archive(request);
    queue.visit(archive);
    archive(verb, number);
  }
};

struct Cancel {
  static constexpr ControlType kType = ControlType::kCancel;
  std::uint32_t request = 0;
  void visit(auto& archive) { archive(request); }
};

struct Reply {
  static constexpr ControlType kType = ControlType::kReply;
  std::uint32_t request = 0;
  std::uint32_t timed_out = 0;  // 1: there was no room, or no item
  // Of an open queue: maxsize, flags, key. Of a state: items, unfinished, lost.
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  void visit(auto& archive) { archive(request, timed_out, first, second, third); }
};

struct Return {
  static constexpr ControlType kType = ControlType::kReturn;
  std::uint64_t token = 0;
  std::uint64_t mark = 0;  // packed: it is back when that is reached. Last: see MessageLeaseSource
  void visit(auto& archive) { archive(token, mark); }
};

// The field `code` of a message. Throws Error(kProtocol) for one that there is not.
Code code_of(std::uint32_t code);
// What a peer wrote for people to read, in lines: Python takes nothing but text for a string.
std::string as_text(std::string bytes);
// The same of what has to say something.
std::string as_reason(std::string bytes);

// The field `writable` of a message. Throws Error(kProtocol) naming `field` for anything else.
memory::Grant grant_of(std::uint32_t writable, const std::string& field);

template <typename Message>
std::vector<std::byte> encode_control(const Message& message) {
  const std::vector<std::byte> body = encode_fields(message);
  const ControlHeader header{.type = Message::kType,
                             .length = static_cast<std::uint32_t>(body.size())};
  std::vector<std::byte> bytes(sizeof header + body.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
  return bytes;
}

// Checks magic and length; the version is the caller's to judge. Throws Error(kProtocol).
ControlHeader decode_control_header(std::span<const std::byte> datagram);

// Throws Error(kProtocol) for a body that is not exactly this message.
template <typename Message>
Message decode_control(std::span<const std::byte> datagram) {
  return decode_fields<Message>(datagram.subspan(sizeof(ControlHeader)));
}

}  // namespace tensorbus::link
