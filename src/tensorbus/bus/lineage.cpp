#include "tensorbus/bus/lineage.hpp"

#include <utility>

#include "tensorbus/platform/lineage.hpp"

namespace tensorbus::bus {

// Hung up is all that it can be; a peer could make it readable for ever.
Lineage::Lineage(Service& service, platform::Fd lineage, Service::Handler on_end)
    : service_(service), lineage_(std::move(lineage)), on_end_(std::move(on_end)) {
  tag_ = service_.watch(lineage_.get(), [this] {
    if (!ended()) return;
    leave();
    on_end_();
  });
  service_.watch_readable(tag_, lineage_.get(), false);
}

Lineage::~Lineage() { leave(); }

void Lineage::leave() noexcept {
  if (lineage_) service_.unwatch(tag_, lineage_.get());
  lineage_.reset();
}

bool Lineage::ended() const noexcept {
  return !lineage_ || platform::lineage_ended(lineage_.get());
}

}  // namespace tensorbus::bus
