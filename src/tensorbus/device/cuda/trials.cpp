#include "tensorbus/device/cuda/trials.hpp"

#include <memory>
#include <string>
#include <thread>

#include "tensorbus/device/gpu_event.hpp"
#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/device/order/timeline.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {
namespace {

using platform::Deadline;

constexpr std::chrono::microseconds kPollSlice{100};

// Memory of a device twice: as its owner has it, and as a borrower imports it.
struct SharedPages {
  explicit SharedPages(const Gpu& device)
      : owners(device, gpu_granularity(device)),
        borrowers(device, owners.descriptor(), owners.bytes()) {}

  GpuAllocation owners;
  GpuAllocation borrowers;
};

void allow(const GpuMapping& mapping, const Gpu& reader, cu::AccessFlags access,
           const std::string& what) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(reader);
  const cu::AccessDesc desc{{cu::LocationType::kDevice, reader.ordinal()}, access};
  cuda.check(
      cuda.MemSetAccess(reinterpret_cast<cu::DevicePtr>(mapping.data()), mapping.size(), &desc, 1),
      "cuMemSetAccess " + what);
}

// A non-blocking stream. If it still has work in the destructor, it is not destroyed.
class TrialStream {
 public:
  explicit TrialStream(const Gpu& device) : device_(device) {
    const CudaDriver& cuda = CudaDriver::get();
    const GpuScope scope(device);
    cuda.check(cuda.StreamCreate(&handle_, cu::kStreamNonBlocking), "cuStreamCreate");
  }
  TrialStream(const TrialStream&) = delete;
  TrialStream& operator=(const TrialStream&) = delete;
  ~TrialStream() {
    try {
      const GpuScope scope(device_);
      if (is_idle()) (void)CudaDriver::get().StreamDestroy(handle_);
    } catch (const Error&) {  // the device is lost, and its streams with it
    }
  }

  GpuStream get() const noexcept { return GpuStream(device_, handle_); }
  // Waits until the stream is idle; false after the deadline. Throws the errors of its operations.
  bool is_idle_by(const Deadline& deadline) const {
    const GpuScope scope(device_);
    while (!is_idle()) {
      if (deadline.passed()) return false;
      std::this_thread::sleep_for(kPollSlice);
    }
    return true;
  }

 private:
  bool is_idle() const {
    const CudaDriver& cuda = CudaDriver::get();
    const cu::Result result = cuda.StreamQuery(handle_);
    if (result != cu::Result::kNotReady) cuda.check(result, "cuStreamQuery");
    return result == cu::Result::kSuccess;
  }

  const Gpu& device_;
  cu::Stream handle_ = nullptr;
};

// A memory pool that can be exported.
class TrialPool {
 public:
  explicit TrialPool(const Gpu& device) : device_(device) {
    const CudaDriver& cuda = CudaDriver::get();
    const GpuScope scope(device);
    cu::MemPoolProps wanted;
    wanted.type = cu::AllocationType::kPinned;
    wanted.handle_types = cu::HandleType::kPosixFd;
    wanted.location = {cu::LocationType::kDevice, device.ordinal()};
    cuda.check(cuda.MemPoolCreate(&handle_, &wanted), "cuMemPoolCreate");
  }
  TrialPool(const TrialPool&) = delete;
  TrialPool& operator=(const TrialPool&) = delete;
  ~TrialPool() {
    try {
      const GpuScope scope(device_);
      (void)CudaDriver::get().MemPoolDestroy(handle_);
    } catch (const Error&) {  // the device is lost, and its memory with it
    }
  }

  void export_itself() const {
    const CudaDriver& cuda = CudaDriver::get();
    int fd = -1;
    cuda.check(cuda.MemPoolExportToShareableHandle(&fd, handle_, cu::HandleType::kPosixFd, 0),
               "cuMemPoolExportToShareableHandle");
    (void)platform::Fd(fd);
  }
  void export_memory() const {
    constexpr std::size_t kBytes = 4096;
    const CudaDriver& cuda = CudaDriver::get();
    cu::DevicePtr address = 0;
    cuda.check(cuda.MemAllocFromPoolAsync(&address, kBytes, handle_, nullptr),
               "cuMemAllocFromPoolAsync of " + std::to_string(kBytes) + " bytes");
    cu::MemPoolPtrExportData name;
    const cu::Result result = cuda.MemPoolExportPointer(&name, address);
    (void)cuda.MemFree(address);  // cuMemFree does not wait for streams
    cuda.check(result, "cuMemPoolExportPointer");
  }

 private:
  const Gpu& device_;
  cu::MemoryPool handle_ = nullptr;
};

// Both ends of a connection in one process.
struct Timelines {
  Timeline lender;
  Timeline borrower{platform::duplicate(lender.memfd().get()), nullptr};
};

class OrderTrial {
 public:
  OrderTrial(const Gpu& device, std::chrono::nanoseconds patience, OrderBy order)
      : patience_(patience), order_(order), writer_(device), reader_(device) {
    timelines_->lender.order_by(order);
    timelines_->borrower.order_by(order);
  }

  void run() {
    try {
      order_ == OrderBy::kStreams ? exchange() : signal();
    } catch (const Error&) {
      release();
      throw;
    }
  }

 private:
  // The reader waits first: otherwise the value might have been written already.
  void exchange() {
    constexpr Mark kExpected{0, 1};
    timelines_->borrower.wait(reader_.get(), kExpected);
    const Mark answer = timelines_->borrower.signal(reader_.get());
    (void)timelines_->lender.signal(writer_.get());
    const bool done = reader_.is_idle_by(Deadline(patience_));
    if (!timelines_->borrower.reached(kExpected))
      fail("cuStreamWriteValue64 was accepted, but the host sees no value");
    if (!done) fail("cuStreamWaitValue64 was accepted, but does not see a value that was written");
    if (!timelines_->lender.reached(answer))
      fail("cuStreamWriteValue64 was accepted, but the host does not see the second value");
  }

  void signal() {
    const Mark first = timelines_->lender.signal(writer_.get());
    timelines_->lender.wait_for_own(reader_.get(), first);
    const Mark answer = timelines_->borrower.signal(reader_.get());
    // The writer's value is written after the event that the reader waits for.
    const Deadline deadline(patience_);
    if (!reader_.is_idle_by(deadline) || !writer_.is_idle_by(deadline) ||
        !timelines_->borrower.reached(first) || !timelines_->lender.reached(answer))
      fail("cuLaunchHostFunc was accepted, but the host sees no value");
  }

  [[noreturn]] void fail(const std::string& what) const {
    const auto waited = std::chrono::ceil<std::chrono::milliseconds>(patience_).count();
    throw Error(Code::kTimeout, what + " after " + std::to_string(waited) + " ms");
  }

  // Writes the values from the host, so that the streams continue. If a stream still does not
  // continue, the timelines are leaked.
  void release() noexcept {
    timelines_->borrower.peer_died();
    bool idle = false;
    try {
      const Deadline deadline(patience_);
      idle = reader_.is_idle_by(deadline) && writer_.is_idle_by(deadline);
    } catch (const Error&) {  // the device is lost: its state is unknown
    }
    if (!idle) return (void)timelines_.release();
    timelines_->lender.give_up();  // so its end does not wait for missing values
    timelines_->borrower.give_up();
  }

  std::chrono::nanoseconds patience_;
  OrderBy order_;
  std::unique_ptr<Timelines> timelines_ = std::make_unique<Timelines>();
  TrialStream writer_;
  TrialStream reader_;
};

}  // namespace

void try_shared_memory(const Gpu& device) {
  const SharedPages pages(device);
  const GpuMapping owners(pages.owners, cu::AccessFlags::kReadWrite);
  const GpuMapping borrowers(pages.borrowers, cu::AccessFlags::kReadWrite);
}

// GpuMapping itself falls back to read and write access without an error.
void try_read_only_mapping(const Gpu& device) {
  const SharedPages pages(device);
  const GpuMapping mapping(pages.borrowers, cu::AccessFlags::kReadWrite);
  allow(mapping, device, cu::AccessFlags::kRead, "for reading only");
}

void try_order(const Gpu& device, std::chrono::nanoseconds patience, OrderBy order) {
  OrderTrial(device, patience, order).run();
}

void try_legacy_ipc(const Gpu& device) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  constexpr std::size_t kBytes = 4096;
  cu::DevicePtr address = 0;
  cuda.check(cuda.MemAlloc(&address, kBytes), "cuMemAlloc of " + std::to_string(kBytes) + " bytes");
  cu::IpcMemHandle handle;
  const cu::Result result = cuda.IpcGetMemHandle(&handle, address);
  (void)cuda.MemFree(address);
  cuda.check(result, "cuIpcGetMemHandle");
}

void try_pool_ipc(const Gpu& device) {
  const GpuScope scope(device);
  const TrialPool pool(device);
  pool.export_itself();
  pool.export_memory();
}

void ask_for_peer_access(const Gpu& reader, const Gpu& owner) {
  const CudaDriver& cuda = CudaDriver::get();
  int can = 0;
  cuda.check(cuda.DeviceCanAccessPeer(&can, reader.handle(), owner.handle()),
             "cuDeviceCanAccessPeer");
  if (can == 0) throw Error(Code::kUnsupported, "cuDeviceCanAccessPeer returned 0");
}

void try_peer_access(const Gpu& reader, const Gpu& owner) {
  const SharedPages pages(owner);
  const GpuMapping mapping(pages.owners, cu::AccessFlags::kReadWrite);
  allow(mapping, reader, cu::AccessFlags::kReadWrite, "for a peer");
}

}  // namespace tensorbus::device
