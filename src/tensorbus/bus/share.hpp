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
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/share/handle.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Shares, and memory for them, for the C interface and the Python extension.
// include/tensorbus/share.hpp describes the calls and their errors.

// Returns memory of the bus that this process keeps, to fill and share any number of times.
TENSORBUS_API Loan empty(const Layout& layout, bool shared = false,
                         const Participant& participant = Participant::shared(),
                         Device device = Device::host());

// Returns true if these bytes can be shared by reference, for other processes to write.
TENSORBUS_API bool is_shared(const void* data, std::size_t bytes,
                             const Participant& participant = Participant::shared());

// Keeps tensors for all processes that have the handle, until close().
class TENSORBUS_API Shared {
 public:
  Shared(Shared&&) noexcept;
  Shared& operator=(Shared&&) noexcept;
  ~Shared();  // close(), unless outlive_object() was called

  const Handle& handle() const;
  bool open() const;
  void close();
  // Lets the share outlive this object: until close(), or the end of its uses or its time.
  void outlive_object();

 private:
  friend TENSORBUS_API Shared share(const Message& message, const ShareOptions& options,
                                    const Participant& participant);
  struct State;
  explicit Shared(ForkSafe<State> state);
  ForkSafe<State> state_;
};

TENSORBUS_API Shared share(const Message& message, const ShareOptions& options = {},
                           const Participant& participant = Participant::shared());

// Shares a message for one process to attach, without a time limit. The share ends when a process
// has attached it, or when it is closed by its handle or by `carrier`, a number for the channel
// through which the handle is sent (0: none). `keeper` keeps it, too, under
// handle.kept_by(keeper): it can be attached there when this process has ended. On return the
// keeper's socket has the share, though the keeper may be stopped, or may never read it.
TENSORBUS_API Handle share_once(const Message& message, bool shared, std::uint64_t carrier,
                                const std::optional<Id>& keeper, const Participant& participant);
TENSORBUS_API void close_share(const Handle& handle, const Participant& participant);
// Ends the shares, own or kept for other participants, that were sent through this carrier.
TENSORBUS_API void close_carried_by(std::uint64_t carrier, const Participant& participant);
// Returns the carriers of shares that this process has had, or kept, for at least this time.
TENSORBUS_API std::set<std::uint64_t> carriers(std::chrono::nanoseconds open_for,
                                               const Participant& participant);
// Returns the carriers of shares that end with this process, because their keeper does not read.
TENSORBUS_API std::set<std::uint64_t> unkept(const Participant& participant);

// Returns a shared sample. The calling thread maps memory on a GPU.
TENSORBUS_API Sample attach(const Handle& handle, const AttachOptions& options = {},
                            const Participant& participant = Participant::shared());
// Returns kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
                             const Participant& participant = Participant::shared());

}  // namespace tensorbus::bus
