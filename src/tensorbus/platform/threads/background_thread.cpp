#include "tensorbus/platform/threads/background_thread.hpp"

#include <system_error>
#include <thread>
#include <utility>

#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/threads/signals_blocked.hpp"

namespace tensorbus::platform {

void start_background_thread(const std::string& what, std::function<void()> run) {
  int error_number = 0;
  {
    const SignalsBlocked guard;
    try {
      std::thread(std::move(run)).detach();
    } catch (const std::system_error& error) {
      error_number = error.code().value();
    }
  }
  if (error_number != 0) throw_system(what, error_number, During::kThread);
}

}  // namespace tensorbus::platform
