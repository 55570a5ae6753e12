#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// The state of a link's next sample between pop() and its delivery to the program. The link keeps
// the sample's entry and lease (BorrowerLink::set_aside). A sample that waits only for its own
// segment has no PendingSample. Guarded by the subscriber's mutex.
//
//   Asked     leases on memory of other owners, or copies of it in host memory, were requested
//     acquired() -> Acquired, or Refused
//   Acquired  the leases or copies have come
//     read with them: delivered, or Asked again (for copies), or Read
//   Refused   they are not available: the sample is dropped
//   Read      the sample was read, and PIN was sent, so that its pages can be pinned
//     the owner replied: delivered
//
// A sample that does not fit the rows of its target array is in the state Read, too: it is
// delivered to the next receive().
struct PendingSample {
  struct Asked {};
  struct Refused {
    std::string why;
  };
  using Acquired = AcquiredLeases;
  using Read = Sample;

  std::uint64_t token = 0;  // of the sample's entry
  std::variant<Asked, Acquired, Refused, Read> state{};
};

}  // namespace tensorbus::bus
