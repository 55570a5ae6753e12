#pragma once

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Makes the kernel wake this thread as soon as its timeouts expire. By default the kernel delays
// them by up to 50 us, to wake several threads at once.
TENSORBUS_API void wake_this_thread_on_time() noexcept;

}  // namespace tensorbus::platform
