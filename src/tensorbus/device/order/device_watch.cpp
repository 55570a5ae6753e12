#include "tensorbus/device/order/device_watch.hpp"

#include <poll.h>

#include <atomic>
#include <list>
#include <new>
#include <utility>
#include <vector>

#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"

namespace tensorbus::memory {
namespace {

constexpr int kLookAgainMs = 2;

using Attempts = std::list<std::function<bool()>>;

struct Watch {
  Watch();

  const platform::Fd wake = platform::make_event();
  platform::Mutex mutex;
  std::list<std::shared_ptr<TimelinePages>> all TB_GUARDED_BY(mutex);
  Attempts attempts TB_GUARDED_BY(mutex);
  std::atomic<bool> broken{false};  // a device, of which nobody was told yet; as the wake-up is
};

void run_watch(Watch& watch);

constinit platform::BackgroundThread<Watch> watching("a thread to look after the streams of GPUs",
                                                     run_watch);

Watch::Watch() {
  platform::GpuStream::tell_of_broken_devices([](const platform::Gpu&) {
    Watch* const on = watching.running();
    if (on == nullptr) return;
    on->broken.store(true, std::memory_order_release);
    platform::signal_event(on->wake.get());
  });
}

// Takes the present items out, so that no lock is held while they are looked at.
template <typename Item>
std::list<Item> taken(Watch& watch, std::list<Item> Watch::* items) {
  std::list<Item> some;
  const platform::MutexLock lock(watch.mutex);
  some.splice(some.end(), watch.*items);
  return some;
}
template <typename Item>
void put_back(Watch& watch, std::list<Item> Watch::* items, std::list<Item>& some) {
  const platform::MutexLock lock(watch.mutex);
  (watch.*items).splice((watch.*items).end(), some);
}

// Returns true if there is more to look at soon.
bool look(Watch& watch) {
  std::list<std::shared_ptr<TimelinePages>> pages = taken(watch, &Watch::all);
  if (watch.broken.exchange(false, std::memory_order_acquire))
    for (const auto& one : pages) one->give_up_broken();
  pages.remove_if([](const auto& one) { return one->tidy(); });
  bool restless = false;
  for (const auto& one : pages) restless = restless || one->restless();
  put_back(watch, &Watch::all, pages);

  Attempts attempts = taken(watch, &Watch::attempts);
  attempts.remove_if([](const auto& attempt) { return attempt(); });
  restless = restless || !attempts.empty();
  put_back(watch, &Watch::attempts, attempts);
  return restless;
}

void wait_for_deaths(Watch& watch, bool restless, std::vector<pollfd>& descriptors,
                     std::vector<std::shared_ptr<TimelinePages>>& of_peers) {
  descriptors.assign(1, {watch.wake.get(), POLLIN, 0});
  of_peers.assign(1, nullptr);
  {
    const platform::MutexLock lock(watch.mutex);
    for (const auto& pages : watch.all)
      if (const platform::Fd* const peer = pages->living_peer()) {
        descriptors.push_back({peer->get(), POLLIN, 0});
        of_peers.push_back(pages);
      }
  }
  if (::poll(descriptors.data(), descriptors.size(), restless ? kLookAgainMs : -1) <= 0) return;
  for (std::size_t i = 1; i < descriptors.size(); ++i)
    if (descriptors[i].revents != 0) of_peers[i]->peer_died();
  if (descriptors[0].revents != 0) platform::clear_event(watch.wake.get());
}

void run_watch(Watch& watch) {
  std::vector<pollfd> descriptors;
  std::vector<std::shared_ptr<TimelinePages>> of_peers;
  for (bool restless = false;; restless = look(watch)) {
    try {
      wait_for_deaths(watch, restless, descriptors, of_peers);
    } catch (const std::bad_alloc&) {  // again, when there is memory
    }
    of_peers.clear();
  }
}

}  // namespace

void DeviceWatch::add(std::shared_ptr<TimelinePages> pages) {
  Watch& on = watching.start();
  std::list<std::shared_ptr<TimelinePages>> one;
  one.push_back(std::move(pages));
  {
    const platform::MutexLock lock(on.mutex);
    on.all.splice(on.all.end(), one);
  }
  platform::signal_event(on.wake.get());
}

void DeviceWatch::wake() noexcept {
  if (const Watch* const on = watching.running()) platform::signal_event(on->wake.get());
}

void DeviceWatch::retry(std::function<bool()> attempt) {
  Watch& on = watching.start();
  Attempts one;
  one.push_back(std::move(attempt));
  {
    const platform::MutexLock lock(on.mutex);
    on.attempts.splice(on.attempts.end(), one);
  }
  platform::signal_event(on.wake.get());
}

}  // namespace tensorbus::memory
