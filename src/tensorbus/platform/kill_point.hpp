#pragma once

#include <array>
#include <string_view>

namespace tensorbus::platform {

// The places of the protocol at which a test can stop or kill a process. docs/internals/protocol.md
// describes what a process that is killed at each place leaves behind. Tests use these lists and
// check that they are complete.
inline constexpr std::array<std::string_view, 35> kKillPoints = {"socket.bound",
                                                                 "socket.listening",
                                                                 "hello.sent",
                                                                 "subscribe.sent",
                                                                 "link.adopted",
                                                                 "accepted.sent",
                                                                 "loan.allocated",
                                                                 "publish.copied",
                                                                 "publish.described",
                                                                 "publish.issued",
                                                                 "publish.segment_sent",
                                                                 "publish.entry_written",
                                                                 "publish.entry_full",
                                                                 "publish.woken",
                                                                 "drop.taken",
                                                                 "receive.popped",
                                                                 "receive.described",
                                                                 "receive.nothing_found",
                                                                 "release.token_written",
                                                                 "release.tail_moved",
                                                                 "close.marker_removed",
                                                                 "accepted.received",
                                                                 "segment.received",
                                                                 "unsubscribe.sent",
                                                                 "done.sent",
                                                                 "request.sent",
                                                                 "acquire.received",
                                                                 "lent.sent",
                                                                 "handed.sent",
                                                                 "return.sent",
                                                                 "put_ring.written",
                                                                 "put_ring.committed",
                                                                 "put_ring.wakes",
                                                                 "get_ring.read",
                                                                 "get_ring.acquired"};
// The places that are reached only with GPU memory.
inline constexpr std::array<std::string_view, 3> kKillPointsOfDevices = {
    "export.lent", "stage.received", "staged.sent"};

#if TENSORBUS_KILL_POINTS
// Stops or ends a test process. The environment variable
// TENSORBUS_KILL_POINT="<name>:<n>:<kill|stop|exit>" acts on the n-th passage of that place
// (counted from 1).
void kill_point(std::string_view name) noexcept;
#else
inline void kill_point(std::string_view) noexcept {}
#endif

}  // namespace tensorbus::platform
