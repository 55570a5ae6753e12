#include "tensorbus/memory/keepers.hpp"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "tensorbus/platform/cuda_driver.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::memory {
namespace {

// Never destroyed: the thread runs to the end of the process.
struct State {
  const std::uint32_t fork_generation = platform::fork_generation();
  std::mutex mutex;
  std::condition_variable more;
  Keepers::Kept kept;
};

// Release on writing pairs with acquire on reading: who finds it finds it complete.
std::atomic<State*> current{nullptr};

// Null in a child, which has no thread.
State* running() noexcept {
  State* const found = current.load(std::memory_order_acquire);
  return found != nullptr && found->fork_generation == platform::fork_generation() ? found
                                                                                   : nullptr;
}

void keep_for_good(Keepers::Kept kept) noexcept {
  new (std::nothrow) Keepers::Kept(std::move(kept));
}

void run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.more.wait(lock, [&] { return !state.kept.empty(); });
    Keepers::Kept one;
    one.splice(one.end(), state.kept, state.kept.begin());
    lock.unlock();
    if (platform::CudaDriver::in_use() == nullptr) keep_for_good(std::move(one));
    one.clear();
    lock.lock();
  }
}

}  // namespace

void Keepers::prepare() {
  static std::mutex mutex;
  if (running() != nullptr) return;
  const std::lock_guard lock(mutex);
  if (running() != nullptr) return;
  auto fresh = std::make_unique<State>();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([&on = *fresh] { run(on); }).detach();
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    platform::throw_system("a thread to let go of CUDA memory", error.code().value(),
                           platform::During::kThread);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  current.store(fresh.release(), std::memory_order_release);
}

void Keepers::let_go(Kept kept) noexcept {
  State* const state = running();
  if (state == nullptr) return keep_for_good(std::move(kept));
  {
    const std::lock_guard lock(state->mutex);
    state->kept.splice(state->kept.end(), kept);
  }
  state->more.notify_one();
}

}  // namespace tensorbus::memory
