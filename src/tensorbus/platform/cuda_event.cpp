#include "tensorbus/platform/cuda_event.hpp"

#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {
namespace {

using Name = std::array<std::byte, sizeof(cu::IpcEventHandle)>;

// Events for other processes. Never destroyed, and of the parent in a child.
struct Pool {
  struct Spare {
    const CudaDevice* device;
    cu::Event event;
    cu::IpcEventHandle name;
  };
  std::mutex mutex;
  std::vector<Spare> spare;           // has room for all
  std::map<Name, cu::Event> by_name;  // what the driver does not open in its own process
};

auto* const all_shared = new Pool;
Pool& pool() { return *all_shared; }

cu::Event create(unsigned flags) {
  const CudaDriver& cuda = CudaDriver::get();
  cu::Event event = nullptr;
  cuda.check(cuda.EventCreate(&event, flags), "cuEventCreate");
  return event;
}

Pool::Spare create_shared(const CudaDevice& device) {
  const CudaDriver& cuda = CudaDriver::get();
  const CudaScope scope(device);
  Pool::Spare made{&device, create(cu::kEventDisableTiming | cu::kEventInterprocess), {}};
  const cu::Result result = cuda.IpcGetEventHandle(&made.name, made.event);
  if (result != cu::Result::kSuccess) (void)cuda.EventDestroy(made.event);
  cuda.check(result, "cuIpcGetEventHandle");
  return made;
}

Pool::Spare take_shared(const CudaDevice& device) {
  Pool& all = pool();
  {
    const std::lock_guard lock(all.mutex);
    for (Pool::Spare& spare : all.spare) {
      if (spare.device != &device) continue;
      const Pool::Spare found = std::exchange(spare, all.spare.back());
      all.spare.pop_back();
      return found;
    }
  }
  const Pool::Spare made = create_shared(device);
  const std::lock_guard lock(all.mutex);
  all.by_name.emplace(made.name.bytes, made.event);
  all.spare.reserve(all.by_name.size());
  return made;
}

void wait_for(cu::Event event, const CudaStream& stream) {
  stream.check(CudaDriver::get().StreamWaitEvent(stream.handle(), event, 0), "cuStreamWaitEvent");
}

}  // namespace

CudaEvent::CudaEvent(const CudaDevice& device, For whom) : device_(&device), for_(whom) {
  if (whom == For::kOtherProcesses) {
    const Pool::Spare shared = take_shared(device);
    name_ = shared.name;
    event_ = shared.event;
    return;
  }
  const CudaScope scope(device);
  event_ = create(cu::kEventDisableTiming);
}

CudaEvent::~CudaEvent() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (event_ == nullptr || cuda == nullptr) return;
  if (for_ == For::kOurselves) {
    (void)cuda->EventDestroy(event_);  // the driver keeps what is still waited for
    return;
  }
  const std::lock_guard lock(pool().mutex);
  pool().spare.push_back({device_, event_, name_});
}

void CudaEvent::record(const CudaStream& stream) const {
  stream.check(CudaDriver::get().EventRecord(event_, stream.handle()), "cuEventRecord");
}

void CudaEvent::wait(const CudaStream& stream) const { wait_for(event_, stream); }

ImportedEvent::ImportedEvent(const CudaDevice& device, const cu::IpcEventHandle& name) {
  const CudaDriver& cuda = CudaDriver::get();
  {
    const std::lock_guard lock(pool().mutex);
    const auto own = pool().by_name.find(name.bytes);
    if (own != pool().by_name.end()) event_ = own->second;
  }
  if (event_ != nullptr) return;
  const CudaScope scope(device);
  cuda.check(cuda.IpcOpenEventHandle(&event_, name), "cuIpcOpenEventHandle");
  opened_ = true;
}

ImportedEvent::~ImportedEvent() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (opened_ && cuda != nullptr) (void)cuda->EventDestroy(event_);
}

void ImportedEvent::wait(const CudaStream& stream) const { wait_for(event_, stream); }

}  // namespace tensorbus::platform
