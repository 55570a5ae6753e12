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

// Memory of the bus that this process keeps: it is filled, shared and published by reference, any
// number of times, and whoever has it sees what is written. `shared`: others may be given the right
// to write to it, too. Its bytes are not cleared. Throws Error(kOutOfMemory)
// that names the limit, Error(kUnsupported) that says why a GPU's memory cannot be had.
TENSORBUS_API Loan empty(const Layout& layout, bool shared = false,
                         const Participant& participant = Participant::shared(),
                         Device device = Device::host());

// Do these bytes lie in memory of the bus, ours or lent to us, or of a mapped file, that others may
// be given the right to write to? Then they are shared so by reference.
TENSORBUS_API bool is_shared(const void* data, std::size_t bytes,
                             const Participant& participant = Participant::shared());

// Keeps tensors for whoever has the handle. Moves, does not copy. When it closes nobody new can
// attach; who has attached keeps what they have.
//
//   tensorbus::Shared shared = tensorbus::share({.tensors = {TensorView::of(data, {n})}});
//   send(shared.handle().text());
class TENSORBUS_API Shared {
 public:
  Shared(Shared&&) noexcept;
  Shared& operator=(Shared&&) noexcept;
  ~Shared();  // close()

  const Handle& handle() const;
  // Can anybody attach still?
  bool open() const;
  void close();

 private:
  friend TENSORBUS_API Shared share(const Message& message, const ShareOptions& options,
                                    const Participant& participant);
  struct State;
  explicit Shared(bus::ForkSafe<State> state);
  bus::ForkSafe<State> state_;
};

// Tensors that lie in memory of the bus, ours or others', are shared as they are, all others are
// copied once. Throws Error(kOutOfMemory) that names the limit.
TENSORBUS_API Shared share(const Message& message, const ShareOptions& options = {},
                           const Participant& participant = Participant::shared());

// The tensors behind a handle, by reference, any number of times, in the owner's process, too. The
// calling thread is the one that maps what lies on a GPU.
// Throws Error(kClosed) when its owner is gone or shares it no longer, Error(kTimeout),
// Error(kInvalidArgument) for a handle that is not what it says, Error(kPermission) for one that
// may only be read, Error(kOutOfMemory) that names the limit.
TENSORBUS_API Sample attach(const Handle& handle, const AttachOptions& options = {},
                            const Participant& participant = Participant::shared());
// The same, to be interrupted: kDone, kTimedOut or kInterrupted.
TENSORBUS_API Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
                             const Participant& participant = Participant::shared());

}  // namespace tensorbus
