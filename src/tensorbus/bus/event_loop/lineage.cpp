#include "tensorbus/bus/event_loop/lineage.hpp"

#include <utility>

#include "tensorbus/platform/fork/lineage.hpp"

namespace tensorbus::bus {

// Reacts to a hang-up only: a peer could make the descriptor readable forever.
Lineage::Lineage(EventLoop& service, platform::Fd lineage, EventLoop::Handler on_end)
    : loop_(service), lineage_(std::move(lineage)), on_end_(std::move(on_end)) {
  tag_ = loop_.watch(lineage_.get(), [this] {
    if (!ended()) return;
    leave();
    on_end_();
  });
  loop_.watch_readable(tag_, lineage_.get(), false);
}

Lineage::~Lineage() { leave(); }

void Lineage::leave() noexcept {
  if (lineage_) loop_.unwatch(tag_, lineage_.get());
  lineage_.reset();
}

bool Lineage::ended() const noexcept {
  return !lineage_ || platform::lineage_ended(lineage_.get());
}

}  // namespace tensorbus::bus
