#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"
#include "tensorbus/link/wire/memory_messages.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

// The table of all control messages. The dispatch (dispatch.hpp), the fuzzers' seeds and the table
// of docs/internals/protocol.md, section 2, follow it; control_messages_test.cpp checks this.
namespace tensorbus::link {

enum class TakenBy : std::uint8_t {
  kHandshake,
  kInspector,
  kTracer,
  kInbound,   // the owner's end of a connection
  kOutbound,  // the borrower's end
  kSession,   // either end
  kMemory,    // either end; a received sample may wait for the memory
};

template <typename Of>
struct ControlMessage {
  using Message = Of;
  std::string_view name;
  std::string_view sent_by;
  TakenBy taken_by;
  std::string_view fields;  // their names, in the order of visit()
  std::size_t min_fds = 0;
  std::size_t max_fds = 0;
  std::string_view fds{};  // their meaning
};

inline constexpr std::tuple kControlMessages{
    ControlMessage<Hello>{"HELLO", "both", TakenBy::kHandshake,
                          "participant, pid, wake slots, has pidfd, layout of shared memory", 1, 3,
                          "the sender's wake page, then its pidfd (a kernel may have none), then "
                          "its lineage (section 8; it may be left out)"},
    ControlMessage<Subscribe>{"SUBSCRIBE", "borrower", TakenBy::kInbound,
                              "link, publisher, depth, max_held, wake slot, writable, best effort, "
                              "fingerprint, resume at, topic, type, node",
                              0, 1, "a notifier, if the subscriber is polled"},
    ControlMessage<Accepted>{"ACCEPTED", "owner", TakenBy::kOutbound,
                             "link, slots, returns, max_held, wake slot, reliable, "
                             "next sequence, machine, publisher",
                             1, 2, "the link segment, then a notifier, if the publisher is polled"},
    ControlMessage<Refused>{"REFUSED", "owner", TakenBy::kOutbound, "link, code, text"},
    ControlMessage<Ended>{"ENDED", "owner", TakenBy::kOutbound, "link, cut off"},
    ControlMessage<Unsubscribe>{"UNSUBSCRIBE", "borrower", TakenBy::kInbound, "link"},
    ControlMessage<Done>{"DONE", "borrower", TakenBy::kInbound, "link"},
    ControlMessage<Event>{"EVENT", "borrower", TakenBy::kInbound, "link", 1, 1, "a notifier"},

    ControlMessage<SegmentMessage>{
        "SEGMENT", "owner", TakenBy::kMemory, "segment, bytes, writable", 1, 1,
        "the segment: opened read-only, or, if writable is 1, for reading and writing"},
    ControlMessage<FileMessage>{"FILE", "owner", TakenBy::kMemory,
                                "segment, bytes, offset, writable, path", 1, 1,
                                "part of a file, in place of a segment: opened as for SEGMENT"},
    ControlMessage<DeviceSegment>{"DEVICE_SEGMENT", "owner", TakenBy::kMemory,
                                  "segment, bytes, device, writable", 1, 1,
                                  "memory of a GPU, in place of a segment"},
    ControlMessage<DeviceExport>{
        "DEVICE_EXPORT", "owner", TakenBy::kMemory,
        "segment, kind, bytes, device, handle, chunk, chunks, bytes of the chunk", 0, 1,
        "memory of another allocator, in place of a segment: of kind 1 (an allocation) none, of "
        "kind 2 the chunk, of kind 3 (of a pool) the pool"},
    ControlMessage<TimelineMessage>{"TIMELINE", "owner", TakenBy::kMemory, "zero", 1, 1,
                                    "the timeline of the connection, before the first mark of it"},
    ControlMessage<Pin>{"PIN", "either", TakenBy::kMemory,
                        "verb, segment, offset, generation, begin, end"},
    ControlMessage<Retired>{"RETIRED", "owner", TakenBy::kSession, "segment"},
    ControlMessage<DeviceClosed>{"DEVICE_CLOSED", "borrower", TakenBy::kSession, "segment"},

    ControlMessage<Attach>{"ATTACH", "either", TakenBy::kSession, "request, share, key, writable"},
    ControlMessage<Acquire>{"ACQUIRE", "either", TakenBy::kSession, "request, writable, blocks"},
    ControlMessage<Stage>{"STAGE", "either", TakenBy::kSession,
                          "request, segment, offset, generation, bytes"},
    ControlMessage<Staged>{"STAGED", "either", TakenBy::kSession,
                           "request, token, segment, offset, generation, device"},
    ControlMessage<HandOver>{"HAND_OVER", "either", TakenBy::kSession,
                             "request, owner, segment, writable, link, token"},
    ControlMessage<Lent>{"LENT", "either", TakenBy::kSession,
                         "request, token, length, segment, offset, inline, number, mark"},
    ControlMessage<Handed>{"HANDED", "either", TakenBy::kSession,
                           "request, bytes, is file, offset, path, device", 1, 1,
                           "the segment, the file, or the memory of a GPU"},
    ControlMessage<Denied>{"DENIED", "either", TakenBy::kSession, "request, code, text"},
    ControlMessage<Return>{"RETURN", "either", TakenBy::kSession, "token, mark"},

    ControlMessage<Keep>{"KEEP", "either", TakenBy::kSession,
                         "share, key, carrier, writable, drop, zero, token, length, segment, "
                         "offset, inline, zero, mark"},

    ControlMessage<Put>{"PUT", "client", TakenBy::kSession,
                        "request, queue, key, flags, zero, token, length, segment, offset, inline, "
                        "zero, mark"},
    ControlMessage<QueueRing>{"QUEUE_RING", "client", TakenBy::kSession, "request, queue, key", 1,
                              1, "the ring"},
    ControlMessage<QueueWake>{"QUEUE_WAKE", "client", TakenBy::kSession, "queue, key"},
    ControlMessage<JoinGetRing>{"JOIN_GET_RING", "client", TakenBy::kSession,
                                "request, queue, key"},
    ControlMessage<GetRing>{"GET_RING", "server", TakenBy::kSession, "request, taker, leases", 1, 1,
                            "the get ring"},
    ControlMessage<Get>{"GET", "client", TakenBy::kSession, "request, queue, key, flags"},
    ControlMessage<Take>{"TAKE", "client", TakenBy::kSession,
                         "request of the GET, queue, key, spoilt"},
    ControlMessage<QueueCall>{"QUEUE", "client", TakenBy::kSession,
                              "request, queue, key, verb, number"},
    ControlMessage<Cancel>{"CANCEL", "client", TakenBy::kSession, "request, read"},
    ControlMessage<Reply>{"REPLY", "server", TakenBy::kSession,
                          "request, refused, first value, second value, third value, fourth value"},

    ControlMessage<Inspect>{"INSPECT", "inspector", TakenBy::kHandshake, "zero"},
    ControlMessage<Inspected>{"INSPECTED", "participant", TakenBy::kInspector, "bytes", 1, 1,
                              "a sealed memfd with the report, opened read-only (section 9)"},
    ControlMessage<Trace>{"TRACE", "tracer", TakenBy::kHandshake, "topics"},
    ControlMessage<Traced>{"TRACED", "participant", TakenBy::kTracer, "layout", 1, 1,
                           "the ring, opened read-only (`tracing.md`)"},
};

// A row of the table as a type.
template <std::size_t kIndex>
struct ControlRow {
  static constexpr const auto& kRow = std::get<kIndex>(kControlMessages);
  using Message = typename std::remove_cvref_t<decltype(kRow)>::Message;
};

template <typename Action>
constexpr void for_each_control_message(Action&& action) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (action(ControlRow<kIndex>()), ...);
  }(std::make_index_sequence<std::tuple_size_v<decltype(kControlMessages)>>());
}

// The type numbers of all messages are below this number.
inline constexpr std::size_t kControlTypes = [] {
  std::size_t end = 0;
  for_each_control_message([&]<typename Row>(Row) {
    end = std::max(end, static_cast<std::size_t>(Row::Message::kType) + 1);
  });
  return end;
}();

}  // namespace tensorbus::link
