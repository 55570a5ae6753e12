#pragma once

#include <cstddef>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/event_loop/fork_safe.hpp"
#include "tensorbus/bus/participant.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/share/handle.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Shares, and memory for them, for the C interface and the Python extension.
// include/tensorbus/share.hpp describes the calls and their errors.

// Returns memory of the bus that this process keeps, to fill and share any number of times.
TENSORBUS_API Loan empty(const Layout& layout, bool shared = false,
                         const Participant& participant = Participant::shared(),
                         Device device = Device::host());

// Returns true if these bytes can be shared by reference, for others to write.
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
  // The share goes on when this object is destroyed: until close(), its uses or its time end it.
  void outlive_object();

 private:
  friend TENSORBUS_API Shared share(const Message& message, const ShareOptions& options,
                                    const Participant& participant);
  struct State;
  explicit Shared(bus::ForkSafe<State> state);
  bus::ForkSafe<State> state_;
};

TENSORBUS_API Shared share(const Message& message, const ShareOptions& options = {},
                           const Participant& participant = Participant::shared());

// Returns a shared sample. The calling thread maps memory on a GPU.
TENSORBUS_API Sample attach(const Handle& handle, const AttachOptions& options = {},
                            const Participant& participant = Participant::shared());
// Returns kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
                             const Participant& participant = Participant::shared());

}  // namespace tensorbus
