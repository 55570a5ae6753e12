#include "ipc_event.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <new>

#include "call.hpp"

// Events in other processes, by a name that anyone may pass on.
namespace standin {
namespace {

struct Name {
  std::int32_t process = 0;
  std::int32_t fd = 0;
  std::int32_t physical = 0;
  std::array<std::byte, 52> unused{};
};
static_assert(sizeof(Name) == sizeof(IpcEventHandle));

// Null: there is no such memory. Stays mapped: streams may wait for it longer than the event lives.
SharedEvent* map_event(int fd) {
  void* const mapped =
      ::mmap(nullptr, sizeof(SharedEvent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return mapped != MAP_FAILED ? static_cast<SharedEvent*>(mapped) : nullptr;
}

// Only what was made as one: its name says so.
OwnedFd open_named(const Name& name) {
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.fd);
  char target[64] = {};
  if (::readlink(path.c_str(), target, sizeof target - 1) < 0 ||
      std::string_view(target).find("standin-cuda-event") == std::string_view::npos)
    return {};
  return OwnedFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

bool share_event(EventTag& event) {
  event.fd = ::memfd_create("standin-cuda-event", MFD_CLOEXEC);
  if (event.fd < 0 || ::ftruncate(event.fd, sizeof(SharedEvent)) < 0) return false;
  event.shared = map_event(event.fd);
  return event.shared != nullptr && new (event.shared) SharedEvent != nullptr;
}

void forget_shared(EventTag& event) {
  event.shared->destroyed = true;
  ::close(event.fd);
}

extern "C" Result cuIpcGetEventHandle(IpcEventHandle* handle, Event event) {
  return call_for("ipc_event", __func__, [&](World& all) {
    if (!all.events.contains(event) || event->fd < 0) return Result::kInvalidHandle;
    *handle = std::bit_cast<IpcEventHandle>(
        Name{.process = ::getpid(), .fd = event->fd, .physical = event->context->physical});
    return Result::kSuccess;
  });
}

extern "C" Result cuIpcOpenEventHandle(Event* event, IpcEventHandle handle) {
  return call_for("ipc_event", __func__, [&](World& all) {
    const Name name = std::bit_cast<Name>(handle);
    const Context context = current_context();
    if (context == nullptr || name.process == ::getpid()) return Result::kInvalidContext;
    if (name.physical != context->physical && !settings().has("peer"))
      return Result::kPeerAccessUnsupported;
    const OwnedFd fd = open_named(name);
    SharedEvent* const shared = fd.get() >= 0 ? map_event(fd.get()) : nullptr;
    if (shared == nullptr) return Result::kInvalidHandle;
    *event = new EventTag{.context = context, .shared = shared};
    all.events.insert(*event);
    return Result::kSuccess;
  });
}

}  // namespace standin
