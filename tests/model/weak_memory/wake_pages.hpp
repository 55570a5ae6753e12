#pragma once

#include <cstddef>
#include <memory>

#include "tensorbus/link/wake/wake.hpp"

namespace tensorbus::model {

// The wake page of a participant, in the mappings of the participant and of its peer. It lies in a
// file, so both are made once.
struct WakePages {
  static const std::shared_ptr<link::WakePage>& own() {
    static const auto page = std::make_shared<link::WakePage>();
    return page;
  }
  static const link::PeerWakePage& of_peer() {
    static const auto mapping = link::map_peer_wake_page(own()->memfd());
    return mapping;
  }
  // Returns the address in the participant's mapping for an address in the peer's mapping. Returns
  // other addresses unchanged.
  static const void* canonical(const void* location) {
    const auto offset =
        static_cast<std::size_t>(static_cast<const std::byte*>(location) - of_peer()->data());
    if (offset >= link::kWakePageBytes) return location;
    const auto* const first = reinterpret_cast<const std::byte*>(&own()->slot(0));
    return first - sizeof(link::WakePageHeader) + offset;
  }
};

}  // namespace tensorbus::model
