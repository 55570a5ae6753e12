#include "tensorbus/device/order/device_watch.hpp"

#include <poll.h>

#include <atomic>
#include <list>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tensorbus/platform/background_thread.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {
namespace {

constexpr int kLookAgainMs = 2;

using Attempts = std::list<std::function<bool()>>;

// Never destroyed: the thread runs to the end of the process.
struct State {
  const std::uint32_t fork_generation = platform::fork_generation();
  const platform::Fd wake = platform::make_event();
  platform::Mutex mutex;
  std::list<std::shared_ptr<TimelinePages>> all TB_GUARDED_BY(mutex);
  Attempts attempts TB_GUARDED_BY(mutex);
  std::atomic<bool> broken{false};  // a device, of which nobody was told yet; as the wake-up is
};

void run(State& state);

// Release on writing pairs with acquire on reading: who finds it finds it complete.
std::atomic<State*> current{nullptr};

// Null in a child, which has neither the thread nor a use for one: no driver works there.
State* running() noexcept {
  State* const found = current.load(std::memory_order_acquire);
  return found != nullptr && found->fork_generation == platform::fork_generation() ? found
                                                                                   : nullptr;
}

State& state() {
  static platform::Mutex mutex;
  if (State* const found = running()) return *found;
  const platform::MutexLock lock(mutex);
  if (State* const found = running()) return *found;
  auto fresh = std::make_unique<State>();
  platform::start_background_thread("a thread to look after the streams of GPUs",
                                    [&on = *fresh] { run(on); });
  State* const made = fresh.release();
  current.store(made, std::memory_order_release);
  platform::GpuStream::tell_of_broken_devices([](const platform::Gpu&) {
    State* const on = running();
    if (on == nullptr) return;
    on->broken.store(true, std::memory_order_release);
    platform::signal_event(on->wake.get());
  });
  return *made;
}

// Those that are there now, so that nothing is held while they are looked at.
template <typename Item>
std::list<Item> taken(State& state, std::list<Item> State::* items) {
  std::list<Item> some;
  const platform::MutexLock lock(state.mutex);
  some.splice(some.end(), state.*items);
  return some;
}
template <typename Item>
void put_back(State& state, std::list<Item> State::* items, std::list<Item>& some) {
  const platform::MutexLock lock(state.mutex);
  (state.*items).splice((state.*items).end(), some);
}

// True if there is more to look at soon.
bool look(State& state) {
  std::list<std::shared_ptr<TimelinePages>> pages = taken(state, &State::all);
  if (state.broken.exchange(false, std::memory_order_acquire))
    for (const auto& one : pages) one->give_up_broken();
  pages.remove_if([](const auto& one) { return one->tidy(); });
  bool restless = false;
  for (const auto& one : pages) restless = restless || one->restless();
  put_back(state, &State::all, pages);

  Attempts attempts = taken(state, &State::attempts);
  attempts.remove_if([](const auto& attempt) { return attempt(); });
  restless = restless || !attempts.empty();
  put_back(state, &State::attempts, attempts);
  return restless;
}

void wait_for_deaths(State& state, bool restless, std::vector<pollfd>& descriptors,
                     std::vector<std::shared_ptr<TimelinePages>>& of_peers) {
  descriptors.assign(1, {state.wake.get(), POLLIN, 0});
  of_peers.assign(1, nullptr);
  {
    const platform::MutexLock lock(state.mutex);
    for (const auto& pages : state.all)
      if (const platform::Fd* const peer = pages->living_peer()) {
        descriptors.push_back({peer->get(), POLLIN, 0});
        of_peers.push_back(pages);
      }
  }
  if (::poll(descriptors.data(), descriptors.size(), restless ? kLookAgainMs : -1) <= 0) return;
  for (std::size_t i = 1; i < descriptors.size(); ++i)
    if (descriptors[i].revents != 0) of_peers[i]->peer_died();
  if (descriptors[0].revents != 0) platform::clear_event(state.wake.get());
}

void run(State& state) {
  std::vector<pollfd> descriptors;
  std::vector<std::shared_ptr<TimelinePages>> of_peers;
  for (bool restless = false;; restless = look(state)) {
    try {
      wait_for_deaths(state, restless, descriptors, of_peers);
    } catch (const std::bad_alloc&) {  // again, when there is some
    }
    of_peers.clear();
  }
}

}  // namespace

void DeviceWatch::add(std::shared_ptr<TimelinePages> pages) {
  State& on = state();
  std::list<std::shared_ptr<TimelinePages>> one;
  one.push_back(std::move(pages));
  {
    const platform::MutexLock lock(on.mutex);
    on.all.splice(on.all.end(), one);
  }
  platform::signal_event(on.wake.get());
}

void DeviceWatch::wake() noexcept {
  if (const State* const on = running()) platform::signal_event(on->wake.get());
}

void DeviceWatch::retry(std::function<bool()> attempt) {
  State& on = state();
  Attempts one;
  one.push_back(std::move(attempt));
  {
    const platform::MutexLock lock(on.mutex);
    on.attempts.splice(on.attempts.end(), one);
  }
  platform::signal_event(on.wake.get());
}

}  // namespace tensorbus::memory
