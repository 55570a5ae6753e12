#pragma once

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Has the kernel wake this thread when its time-outs are over, and not up to 50 us later, as it
// does to wake several threads at once.
TENSORBUS_API void wake_this_thread_on_time() noexcept;

}  // namespace tensorbus::platform
