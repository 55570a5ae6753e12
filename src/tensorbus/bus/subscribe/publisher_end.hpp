#pragma once

#include <sys/types.h>

#include "tensorbus/bus/domain/topic_name.hpp"

namespace tensorbus::bus {

// The end of a publisher that was connected, after its last sample was received. A publisher whose
// machine is no longer connected has the pid of the bridge.
struct PublisherEnd {
  PublisherName publisher;
  pid_t pid = 0;
  bool closed = false;  // in an orderly way; false: its process died, or the connection was lost
};

}  // namespace tensorbus::bus
