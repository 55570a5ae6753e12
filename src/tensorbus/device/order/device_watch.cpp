#include "tensorbus/device/order/device_watch.hpp"

#include <poll.h>

#include <atomic>
#include <list>
#include <new>
#include <utility>
#include <vector>

#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"

namespace tensorbus::device {
namespace {

constexpr int kLookAgainMs = 2;

struct Watched {
  std::shared_ptr<TimelinePages> pages;
  // The same pages. Released after `pages`, in another thread, because their end calls the driver.
  DeferredReleaser::Kept last;
};

struct Watch {
  Watch();

  const platform::Fd wake = platform::make_event();
  platform::Mutex mutex;
  std::list<Watched> all TB_GUARDED_BY(mutex);
  std::atomic<bool> broken{false};  // a device broke, and no timeline was notified yet
};

void run_watch(Watch& watch);

constinit platform::BackgroundThread<Watch> watching("a thread to watch the streams of GPUs",
                                                     run_watch);

Watch::Watch() {
  GpuStream::on_broken_devices([](const Gpu&) {
    Watch* const on = watching.running();
    if (on == nullptr) return;
    on->broken.store(true, std::memory_order_release);
    platform::signal_event(on->wake.get());
  });
}

// Returns true if it must be called again soon. No lock is held while the pages are checked.
bool look(Watch& watch) {
  std::list<Watched> all;
  {
    const platform::MutexLock lock(watch.mutex);
    all.swap(watch.all);
  }
  if (watch.broken.exchange(false, std::memory_order_acquire))
    for (const Watched& one : all) one.pages->give_up_broken();
  DeferredReleaser::Kept ended;
  bool restless = false;
  for (auto at = all.begin(); at != all.end();) {
    const auto one = at++;
    if (one->pages->tidy()) {
      ended.splice(ended.end(), one->last);
      all.erase(one);
    } else {
      restless = restless || one->pages->restless();
    }
  }
  {
    const platform::MutexLock lock(watch.mutex);
    watch.all.splice(watch.all.end(), all);
  }
  DeferredReleaser::let_go(std::move(ended));
  return restless;
}

void wait_for_deaths(Watch& watch, bool restless, std::vector<pollfd>& descriptors,
                     std::vector<std::shared_ptr<TimelinePages>>& of_peers) {
  descriptors.assign(1, {watch.wake.get(), POLLIN, 0});
  of_peers.assign(1, nullptr);
  {
    const platform::MutexLock lock(watch.mutex);
    for (const Watched& one : watch.all)
      if (const platform::Fd* const peer = one.pages->living_peer()) {
        descriptors.push_back({peer->get(), POLLIN, 0});
        of_peers.push_back(one.pages);
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
    } catch (const std::bad_alloc&) {  // tried again later
    }
    of_peers.clear();
  }
}

}  // namespace

void DeviceWatch::add(std::shared_ptr<TimelinePages> pages) {
  DeferredReleaser::prepare();
  Watch& on = watching.start();
  std::list<Watched> one(1);
  one.front().last.push_back(pages);
  one.front().pages = std::move(pages);
  {
    const platform::MutexLock lock(on.mutex);
    on.all.splice(on.all.end(), one);
  }
  platform::signal_event(on.wake.get());
}

void DeviceWatch::wake() noexcept {
  if (const Watch* const on = watching.running()) platform::signal_event(on->wake.get());
}

}  // namespace tensorbus::device
