#include "tensorbus/platform/background_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "tensorbus/platform/limits.hpp"

namespace tensorbus::platform {
namespace {

// A new thread inherits the signal mask of the thread that starts it.
class AllBlocked {
 public:
  AllBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllBlocked(const AllBlocked&) = delete;
  AllBlocked& operator=(const AllBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

void start_background_thread(const std::string& what, std::function<void()> run) {
  int error_number = 0;
  {
    const AllBlocked guard;
    try {
      std::thread(std::move(run)).detach();
    } catch (const std::system_error& error) {
      error_number = error.code().value();
    }
  }
  if (error_number != 0) throw_system(what, error_number, During::kThread);
}

}  // namespace tensorbus::platform
