#include "tensorbus/device/memory/deferred_releaser.hpp"

#include <atomic>
#include <new>
#include <utility>

#include "tensorbus/device/gpu.hpp"
#include "tensorbus/platform/background_thread.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {
namespace {

// Never destroyed: the thread runs to the end of the process.
struct State {
  const std::uint32_t fork_generation = platform::fork_generation();
  platform::Mutex mutex;
  platform::Condition more;
  DeferredReleaser::Kept kept TB_GUARDED_BY(mutex);
};

// Release when written pairs with acquire when read: a reader sees a complete State.
std::atomic<State*> current{nullptr};

// Returns null in a child, which has no such thread.
State* running() noexcept {
  State* const found = current.load(std::memory_order_acquire);
  return found != nullptr && found->fork_generation == platform::fork_generation() ? found
                                                                                   : nullptr;
}

void keep_for_good(DeferredReleaser::Kept kept) noexcept {
  new (std::nothrow) DeferredReleaser::Kept(std::move(kept));
}

void run(State& state) {
  const platform::MutexLock lock(state.mutex);
  while (true) {
    while (state.kept.empty()) state.more.wait(state.mutex);
    DeferredReleaser::Kept one;
    one.splice(one.end(), state.kept, state.kept.begin());
    const platform::MutexUnlock unlocked(state.mutex);
    if (!platform::Gpu::any_in_use()) keep_for_good(std::move(one));
    one.clear();
  }
}

}  // namespace

void DeferredReleaser::prepare() {
  static platform::Mutex mutex;
  if (running() != nullptr) return;
  const platform::MutexLock lock(mutex);
  if (running() != nullptr) return;
  auto fresh = std::make_unique<State>();
  platform::start_background_thread("a thread to let go of GPU memory",
                                    [&on = *fresh] { run(on); });
  current.store(fresh.release(), std::memory_order_release);
}

void DeferredReleaser::let_go(Kept kept) noexcept {
  if (kept.empty()) return;
  State* const state = running();
  if (state == nullptr) return keep_for_good(std::move(kept));
  {
    const platform::MutexLock lock(state->mutex);
    state->kept.splice(state->kept.end(), kept);
  }
  state->more.notify_one();
}

}  // namespace tensorbus::memory
