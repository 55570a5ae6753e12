#include "tensorbus/device/memory/deferred_releaser.hpp"

#include <new>
#include <utility>

#include "tensorbus/device/gpu.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/threads/background_thread.hpp"

namespace tensorbus::memory {
namespace {

struct Release {
  platform::Mutex mutex;
  platform::Condition more;
  DeferredReleaser::Kept kept TB_GUARDED_BY(mutex);
};

void keep_for_good(DeferredReleaser::Kept kept) noexcept {
  new (std::nothrow) DeferredReleaser::Kept(std::move(kept));
}

void run_release(Release& release) {
  const platform::MutexLock lock(release.mutex);
  while (true) {
    while (release.kept.empty()) release.more.wait(release.mutex);
    DeferredReleaser::Kept one;
    one.splice(one.end(), release.kept, release.kept.begin());
    const platform::MutexUnlock unlocked(release.mutex);
    if (!platform::Gpu::any_in_use()) keep_for_good(std::move(one));
    one.clear();
  }
}

constinit platform::BackgroundThread<Release> releasing("a thread to let go of GPU memory",
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

}  // namespace tensorbus::memory
