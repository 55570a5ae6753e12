#include "tensorbus/device/memory/ipc_memory.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tensorbus/device/foreign_memory.hpp"
#include "tensorbus/device/gpu_event.hpp"
#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {
namespace {

std::string name_of(const Gpu& device) { return "cuda:" + std::to_string(device.ordinal()); }

[[noreturn]] void refuse_export(const std::string& why) {
  throw Error(Code::kUnsupported,
              "this memory has no cudaIpcMemHandle_t: " + why +
                  ". Copy the tensor into memory of cudaMalloc, or publish it on a topic");
}

[[noreturn]] void refuse_import(const Gpu& device, const HandleRefused& error) {
  const std::string driver = std::string(" (") + error.what() + ")";
  switch (error.why()) {
    case HandleRefused::Why::kOwn:
      throw Error(Code::kInvalidArgument,
                  "the handle is of memory of this process, which CUDA opens only in other "
                  "processes: use the original tensor or pointer" +
                      driver);
    case HandleRefused::Why::kGone:
      throw Error(Code::kClosed,
                  "the handle refers to no memory: it was freed, its process has ended, or these "
                  "are not the bytes of a cudaIpcMemHandle_t" +
                      driver);
    case HandleRefused::Why::kOutOfReach:
      throw Error(Code::kUnsupported, name_of(device) +
                                          " cannot reach the GPU of this memory: open the handle "
                                          "on the GPU that the memory lies on" +
                                          driver);
    case HandleRefused::Why::kOther:
      throw Error(error);
  }
  __builtin_unreachable();
}

DeviceImports::Range opened(const Gpu& device, const std::array<std::byte, 64>& handle) {
  try {
    return DeviceImports::open(device, {handle});
  } catch (const HandleRefused& error) {
    refuse_import(device, error);
  }
}

// The points of the streams after their last use of the memory.
class LastUses {
 public:
  // Throws Error(kUnsupported) for a stream that is captured into a graph, Error(kOutOfMemory).
  explicit LastUses(const std::vector<GpuStream>& streams) {
    for (const GpuStream& stream : streams) {
      if (stream.device().is_broken()) continue;  // its streams run nothing any more
      try {
        const GpuScope scope(stream.device());
        stream.require_usable_in_scope("Releasing GPU memory");
        auto event = std::make_unique<const GpuEvent>(stream.device());
        event->record(stream);
        events_.push_back(std::move(event));
      } catch (const Error& error) {
        if (error.code() != Code::kSystem) throw;  // otherwise the stream or the device is gone
      }
    }
  }
  bool have_passed() const noexcept {
    return std::ranges::all_of(events_, [](const auto& event) { return event->has_passed(); });
  }

 private:
  std::vector<std::unique_ptr<const GpuEvent>> events_;
};

// Keeps the memory open until the streams have passed their last use. An event cannot be recorded
// on a stream that is being captured; a later call tries again.
struct Closing {
  const std::vector<GpuStream> streams;
  DeviceImports::Range range;
  std::unique_ptr<const LastUses> last = nullptr;

  bool is_over() noexcept {
    try {
      if (!last) last = std::make_unique<const LastUses>(streams);
    } catch (const std::exception&) {
      return false;
    }
    if (!last->have_passed()) return false;
    range.reset();
    return true;
  }
};

}  // namespace

IpcName ipc_name_of(const std::byte* first, std::size_t bytes) {
  const int ordinal = ForeignMemory::ordinal_of(first);
  if (ordinal < 0)
    throw Error(Code::kInvalidArgument, "this memory has no CUDA IPC handle: it is not GPU memory");
  const Gpu& device = Gpu::at(ordinal);
  if (DeviceImports::is_opened(first))
    refuse_export(
        "it was opened by a handle, and CUDA makes no second handle for it: send the handle that "
        "it was opened by");
  auto found = ForeignMemory::around(device, first, 1);
  if (!found || found->kind() != ForeignMemory::Kind::kLegacy || !found->make_shareable())
    refuse_export(ForeignMemory::why_no_handle(device, first));
  const auto offset = static_cast<std::size_t>(first - found->range().data());
  if (bytes > found->range().size() - offset)
    throw Error(Code::kInvalidArgument, std::to_string(bytes) + " bytes from byte " +
                                            std::to_string(offset) + " on: the allocation has " +
                                            std::to_string(found->range().size()) + " bytes");
  return {found->handle(), offset, found->range().size(), ordinal};
}

IpcMemory::IpcMemory(const Gpu& device, const std::array<std::byte, 64>& handle)
    : range_(opened(device, handle)) {
  const int ordinal = ForeignMemory::ordinal_of(range_->data(), device);
  if (ordinal != device.ordinal())
    throw Error(Code::kInvalidArgument,
                "the memory of this handle lies on cuda:" + std::to_string(ordinal) + ", not on " +
                    name_of(device) + ": open it there");
}

IpcMemory::~IpcMemory() {
  if (fork_generation_ != platform::fork_generation() || !Gpu::any_in_use()) {
    platform::abandon(std::move(range_));
    return;
  }
  if (streams_.empty()) return;
  try {
    auto closing = std::make_shared<Closing>(Closing{std::move(streams_), range_});
    if (!closing->is_over()) DeferredReleaser::retry([closing] { return closing->is_over(); });
  } catch (const std::exception&) {  // no memory: it stays open
    platform::abandon(std::move(range_));
  }
}

void IpcMemory::use_on(const GpuStream& stream) {
  stream.require_usable("Using memory of another process");
  const platform::MutexLock lock(mutex_);
  if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
}

}  // namespace tensorbus::device
