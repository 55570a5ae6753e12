#pragma once

#include <tensorbus/c/share.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <tensorbus/handle.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/loan.hpp>
#include <tensorbus/message.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Do these bytes lie in memory of the bus, ours or lent to us, or of a mapped file, that others may
// be given the right to write to? Then they are shared so by reference.
inline bool is_shared(const void* data, std::size_t bytes,
                      const Participant& participant = Participant::shared()) {
  return tb_is_shared(internal::get(participant), data, bytes) != 0;
}

// Keeps tensors for whoever has the handle. Moves, does not copy. When it closes nobody new can
// attach; who has attached keeps what they have.
//
//   tensorbus::Shared shared = tensorbus::share({.tensors = {TensorView::of(data, {n})}});
//   send(shared.handle().text());
class Shared {
 public:
  // Throws Error(kClosed) of one that was moved from.
  const Handle& handle() const {
    if (handle_.text().empty()) throw Error(Code::kClosed, "this share was moved from");
    return handle_;
  }
  // Can anybody attach still?
  bool open() const { return tb_share_is_open(share_.get()) != 0; }
  void close() { share_.reset(); }

 private:
  friend Shared share(const Message& message, const ShareOptions& options,
                      const Participant& participant);
  using Owner = internal::Owned<tb_share, tb_share_destroy>;
  explicit Shared(Owner share)
      : share_(std::move(share)), handle_(Handle(tb_share_handle(share_.get()))) {}

  Owner share_;
  Handle handle_;
};

// Tensors that lie in memory of the bus, ours or others', are shared as they are, all others are
// copied once. Throws Error(kOutOfMemory) that names the limit.
inline Shared share(const Message& message, const ShareOptions& options = {},
                    const Participant& participant = Participant::shared()) {
  tb_share_options given = TB_SHARE_OPTIONS_INIT;
  given.uses = options.uses;
  given.ttl_ns = options.ttl.count();
  given.shared = options.shared ? 1 : 0;
  tb_participant* const by = internal::get(participant);
  internal::Outbound outbound(message);
  return Shared(internal::created<Shared::Owner>(
      [&](tb_share** share) { return tb_share_create(by, outbound.hand_over(), &given, share); }));
}

// The tensors behind a handle, by reference, any number of times, in the owner's process, too:
// kDone, kTimedOut or kInterrupted. Throws Error(kClosed) when its owner is gone or shares it no
// longer, Error(kInvalidArgument) for a handle that is not what it says, Error(kPermission) for one
// that may only be read, Error(kOutOfMemory) that names the limit.
inline Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
                      const Participant& participant = Participant::shared()) {
  internal::Asked asked(options.give_up);
  return internal::receive_into(sample, [&](tb_sample** given) {
    return asked.ended(tb_attach(internal::get(participant), handle.text().c_str(),
                                 static_cast<std::int32_t>(options.access), options.timeout.count(),
                                 asked.get(), given));
  });
}
// The same, which throws Error(kTimeout) if nobody answered in time, or it was given up.
inline Sample attach(const Handle& handle, const AttachOptions& options = {},
                     const Participant& participant = Participant::shared()) {
  Sample sample;
  if (attach(sample, handle, options, participant) != Outcome::kDone)
    throw Error(Code::kTimeout,
                "nobody answered in time: the process that shares it is stopped, or very busy");
  return sample;
}

}  // namespace tensorbus::inline v0
