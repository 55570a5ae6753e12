#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/share/handle.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Shares, and memory for them, for the C interface and the Python extension.
// include/tensorbus/share.hpp describes the calls and their errors.

// Returns memory of the bus that may be filled and shared any number of times.
TENSORBUS_API Loan empty(const Layout& layout, bool shared = false,
                         const ParticipantRef& participant = shared_participant(),
                         Device device = Device::host());

// Returns true if these bytes can be shared by reference with processes that may write to them.
TENSORBUS_API bool is_shared(const void* data, std::size_t bytes,
                             const ParticipantRef& participant = shared_participant());

// Keeps tensors for all processes that have the handle, until close().
class TENSORBUS_API Shared {
 public:
  Shared(Shared&&) noexcept;
  Shared& operator=(Shared&&) noexcept;
  ~Shared();  // close(), unless outlive_object() was called

  const Handle& handle() const;
  bool open() const;
  void close();
  // Afterwards the share outlives this object. It ends by close(), with its last use, or at its
  // time limit.
  void outlive_object();

 private:
  friend TENSORBUS_API Shared share(const Message& message, const ShareOptions& options,
                                    const ParticipantRef& participant);
  struct State;
  explicit Shared(ForkSafe<State> state);
  ForkSafe<State> state_;
};

TENSORBUS_API Shared share(const Message& message, const ShareOptions& options = {},
                           const ParticipantRef& participant = shared_participant());

// Shares a message for one process to attach, without a time limit. The share ends when a process
// has attached it, or when it is closed by its handle or by its carrier. `carrier`: a number for
// the channel through which the handle is sent (0: none). `keeper` also keeps the share, under
// handle.kept_by(keeper), so that a process can attach it there after this process has ended. On
// return the keeper's socket has the share, unless the keeper is gone, or accepts no connection
// within a second. But the keeper may be stopped, or may never read its socket.
TENSORBUS_API Handle share_once(const Message& message, bool shared, std::uint64_t carrier,
                                const std::optional<Id>& keeper, const ParticipantRef& participant);
TENSORBUS_API void close_share(const Handle& handle, const ParticipantRef& participant);
// Ends the shares, own or kept for other participants, that were sent through this carrier.
TENSORBUS_API void close_carried_by(std::uint64_t carrier, const ParticipantRef& participant);
// Returns the carriers of shares that this process has had, or kept, for at least this time.
TENSORBUS_API std::set<std::uint64_t> carriers(std::chrono::nanoseconds open_for,
                                               const ParticipantRef& participant);
// Returns the carriers of shares that end with this process, because their keeper does not read its
// socket.
TENSORBUS_API std::set<std::uint64_t> unkept(const ParticipantRef& participant);

// Returns a shared sample. The calling thread maps memory on a GPU.
TENSORBUS_API Sample attach(const Handle& handle, const AttachOptions& options = {},
                            const ParticipantRef& participant = shared_participant());
// Returns kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
                             const ParticipantRef& participant = shared_participant());

}  // namespace tensorbus::bus
