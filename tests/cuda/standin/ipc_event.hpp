#pragma once

#include "stream.hpp"

namespace standin {

// Gives an event the memory that other processes can have. False: the system refuses.
bool share_event(EventTag& event);
// The event is about to be destroyed here.
void forget_shared(EventTag& event);

}  // namespace standin
