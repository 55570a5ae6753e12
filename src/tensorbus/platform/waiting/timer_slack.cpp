#include "tensorbus/platform/waiting/timer_slack.hpp"

#include <sys/prctl.h>

namespace tensorbus::platform {

void wake_this_thread_on_time() noexcept {
  constexpr unsigned long kMinNs = 1;  // 0 would mean the default
  (void)::prctl(PR_SET_TIMERSLACK, kMinNs, 0UL, 0UL, 0UL);
}

}  // namespace tensorbus::platform
