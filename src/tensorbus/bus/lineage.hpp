#pragma once

#include "tensorbus/bus/service.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::bus {

// The lineage of a peer (platform/lineage.hpp). What a peer held when it died stays lent until its
// lineage has ended: a forked child may read it. On the service thread only.
class Lineage {
 public:
  // `on_end` is called on the service thread, once, unless this goes before.
  Lineage(Service& service, platform::Fd lineage, Service::Handler on_end);
  ~Lineage();
  Lineage(const Lineage&) = delete;
  Lineage& operator=(const Lineage&) = delete;

  // Asks the kernel: it knows before on_end() is called.
  bool ended() const noexcept;

 private:
  void leave() noexcept;

  Service& service_;
  platform::Fd lineage_;
  const Service::Handler on_end_;
  Service::Tag tag_ = 0;
};

}  // namespace tensorbus::bus
