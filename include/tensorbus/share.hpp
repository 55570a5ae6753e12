#pragma once

#include <tensorbus/c/share.h>

#include <cstddef>
#include <cstdint>
#include <tensorbus/handle.hpp>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/loan.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/options.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Returns true if other processes can get write access to these bytes. The bytes then lie in memory
// of the bus, of this process or lent to it, or of a mapped file. share() with `shared` does not
// copy them.
inline bool is_shared(const void* data, std::size_t bytes,
                      const Participant& participant = Participant::shared()) {
  return tb_is_shared(internal::get(participant), data, bytes) != 0;
}

// Keeps tensors available for all processes that have the handle. Movable, not copyable. After
// close() no more processes can attach; processes that have attached keep the tensors.
//
//   tensorbus::Shared shared = tensorbus::share({.tensors = {TensorView::of(data, {n})}});
//   send(shared.handle().text());
class Shared {
 public:
  // Throws Error(kClosed) for a moved-from share.
  const Handle& handle() const {
    if (handle_.text().empty()) throw Error(Code::kClosed, "this share was moved from");
    return handle_;
  }
  // Returns true if processes can still attach.
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

// Shares tensors. Tensors in memory of the bus, of this process or another owner, are shared in
// place. All others are copied once. Throws Error(kOutOfMemory), which names the limit.
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

// Gets the tensors of a handle by reference, any number of times, also in the owner's process.
// Returns kDone, kTimedOut or kInterrupted. Throws Error(kClosed) if the owner is gone or has ended
// the share, Error(kInvalidArgument) if the share has other tensors than the handle describes,
// Error(kPermission) if write access is requested and the share is read-only, Error(kOutOfMemory),
// which names the limit.
inline Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
                      const Participant& participant = Participant::shared()) {
  internal::Asked asked(options.give_up);
  return internal::receive_into(sample, [&](tb_sample** given) {
    return asked.ended(tb_attach(internal::get(participant), handle.text().c_str(),
                                 static_cast<std::int32_t>(options.access), options.timeout.count(),
                                 asked.get(), given));
  });
}
// Like attach() above, but returns the sample. Throws Error(kTimeout) if no reply arrived in time,
// or `give_up` returned true.
inline Sample attach(const Handle& handle, const AttachOptions& options = {},
                     const Participant& participant = Participant::shared()) {
  Sample sample;
  if (attach(sample, handle, options, participant) != Outcome::kDone)
    throw Error(Code::kTimeout, "no reply in time: the share's process is stopped, or very busy");
  return sample;
}

}  // namespace tensorbus::inline v0
