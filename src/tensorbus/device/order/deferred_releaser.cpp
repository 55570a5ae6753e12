#include "tensorbus/device/order/deferred_releaser.hpp"

#include <atomic>
#include <chrono>
#include <new>
#include <utility>

#include "tensorbus/device/gpu.hpp"
#include "tensorbus/platform/leak.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"

namespace tensorbus::device {
namespace {

constexpr std::chrono::milliseconds kTryAgain{2};

using Attempts = std::list<std::function<bool()>>;

struct Release {
  platform::Mutex mutex;
  platform::Condition more;
  DeferredReleaser::Kept kept TB_GUARDED_BY(mutex);
  Attempts attempts TB_GUARDED_BY(mutex);
};

// Memory that must not be released any more, because the driver must not be called. No code reads
// the list: it keeps the memory reachable, so that a leak checker does not report it.
struct KeptForGood {
  DeferredReleaser::Kept kept;
  KeptForGood* next = nullptr;
};
constinit std::atomic<KeptForGood*> kept_for_good{nullptr};

void keep_for_good(DeferredReleaser::Kept kept) noexcept {
  auto* const added = new (std::nothrow) KeptForGood;
  if (added == nullptr) return platform::leak(std::move(kept));
  added->kept.swap(kept);
  added->next = kept_for_good.load();
  while (!kept_for_good.compare_exchange_weak(added->next, added)) {
  }
}

void release_all(DeferredReleaser::Kept kept) noexcept {
  while (!kept.empty()) {
    if (Gpu::must_be_left_alone()) return keep_for_good(std::move(kept));
    kept.pop_front();
  }
}

void run_release(Release& release) {
  const platform::MutexLock lock(release.mutex);
  while (true) {
    while (release.kept.empty() && release.attempts.empty()) release.more.wait(release.mutex);
    if (release.kept.empty())
      release.more.wait_until(release.mutex, std::chrono::steady_clock::now() + kTryAgain);
    DeferredReleaser::Kept kept;
    Attempts attempts;
    kept.swap(release.kept);
    attempts.swap(release.attempts);
    {
      const platform::MutexUnlock unlocked(release.mutex);
      attempts.remove_if([](const auto& attempt) { return attempt(); });
      release_all(std::move(kept));
    }
    release.attempts.splice(release.attempts.begin(), attempts);
  }
}

constinit platform::BackgroundThread<Release> releasing("a thread to release GPU memory",
                                                        run_release);

}  // namespace

void DeferredReleaser::prepare() { (void)releasing.start(); }

void DeferredReleaser::let_go(Kept kept) noexcept {
  if (kept.empty()) return;
  Release* const release = releasing.running();
  if (release == nullptr) return keep_for_good(std::move(kept));
  {
    const platform::MutexLock lock(release->mutex);
    release->kept.splice(release->kept.end(), kept);
  }
  release->more.notify_one();
}

void DeferredReleaser::retry(std::function<bool()> attempt) {
  Release& release = releasing.start();
  Attempts one;
  one.push_back(std::move(attempt));
  {
    const platform::MutexLock lock(release.mutex);
    release.attempts.splice(release.attempts.end(), one);
  }
  release.more.notify_one();
}

}  // namespace tensorbus::device
