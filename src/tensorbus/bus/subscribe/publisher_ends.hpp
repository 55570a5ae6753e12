#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbus/bus/subscribe/publisher_end.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"

namespace tensorbus::bus {

// The ends of a subscriber's publishers that the program has not taken yet. Records nothing before
// watch(). An end is noted on the event loop, where nothing may fail: room for the end of each
// publisher that could still end is reserved before.
class PublisherEnds {
 public:
  // `publishers`: how many could end now.
  void watch(std::size_t publishers) {
    if (!ends_) ends_ = with_room(publishers);
  }
  bool watched() const noexcept { return ends_.has_value(); }
  bool any() const noexcept { return ends_.has_value() && !ends_->empty(); }
  void reserve(std::size_t publishers) {
    if (ends_) ends_->reserve(ends_->size() + publishers);
  }
  void note(const link::BorrowerLink& link) noexcept {
    if (!ends_ || !link.accepted()) return;
    const link::Source& source = *link.source();
    ends_->push_back({{source.participant, source.publisher},
                      link.peer_memory()->account.pid(),
                      link.publisher_closed()});  // capacity is reserved
  }
  // Returns the ends since the last call, in their order.
  std::vector<PublisherEnd> take(std::size_t publishers) {
    if (!any()) return {};
    return std::exchange(*ends_, with_room(publishers));
  }

 private:
  static std::vector<PublisherEnd> with_room(std::size_t publishers) {
    std::vector<PublisherEnd> none;
    none.reserve(publishers);
    return none;
  }

  std::optional<std::vector<PublisherEnd>> ends_;  // without a value: not watched
};

}  // namespace tensorbus::bus
