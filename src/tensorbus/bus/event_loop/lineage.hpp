#pragma once

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::bus {

// Watches the lineage of a peer (platform/fork/lineage.hpp). Memory that a dead peer held stays
// lent until its lineage has ended, because a forked child may read it. Used only on the event
// loop.
class Lineage {
 public:
  // `on_end` is called on the event loop, once, unless this object is destroyed before.
  Lineage(EventLoop& service, platform::Fd lineage, EventLoop::Handler on_end);
  ~Lineage();
  Lineage(const Lineage&) = delete;
  Lineage& operator=(const Lineage&) = delete;

  // Makes a system call, because the lineage may end some time before on_end() is called.
  bool ended() const noexcept;

 private:
  void leave() noexcept;

  EventLoop& loop_;
  platform::Fd lineage_;
  const EventLoop::Handler on_end_;
  EventLoop::Tag tag_ = 0;
};

}  // namespace tensorbus::bus
