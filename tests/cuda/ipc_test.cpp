// Raw CUDA IPC handles: one process of each test calls the driver alone, the other one opens what
// that sends, or sends what that opens.

#include "tensorbus/bus/ipc.hpp"

#include <thread>

#include "foreign.hpp"
#include "tensorbus/device/memory/device_imports.hpp"

namespace tensorbus {
namespace {

using namespace testing;
using standin::DevicePtr;
using standin::IpcMemHandle;
using standin::kIpcLazyPeerAccess;

const Device kFirst = Device::cuda(0);

DevicePtr allocated(std::size_t bytes = kBytes) {
  DevicePtr address = 0;
  EXPECT_OK(standin::cuMemAlloc_v2(&address, bytes));
  return address;
}
std::uint64_t* words_at(DevicePtr address) { return reinterpret_cast<std::uint64_t*>(address); }
std::byte* bytes_at(DevicePtr address) { return reinterpret_cast<std::byte*>(address); }
const std::byte* bytes_of(const Foreign& memory) {
  return reinterpret_cast<const std::byte*>(memory.at(0));
}
IpcMemHandle handle_of(DevicePtr address) {
  IpcMemHandle handle;
  EXPECT_OK(standin::cuIpcGetMemHandle(&handle, address));
  return handle;
}
Layout words(std::int64_t count = kWords) { return Layout::contiguous(DType::kUInt64, {count}); }
bus::Tensor opened(const IpcMemHandle& handle, std::size_t offset = 0,
                   const Layout& layout = words()) {
  return bus::open_ipc(handle.bytes, offset, layout, kFirst).tensor();
}
std::optional<Code> why_not(const IpcMemHandle& handle, std::size_t offset = 0,
                            const Layout& layout = words(), Device device = kFirst) {
  return code_of([&] { (void)bus::open_ipc(handle.bytes, offset, layout, device); });
}
std::string text_of_refusal(const std::byte* data, std::size_t bytes = 8) {
  try {
    (void)bus::ipc_name_of(data, bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
bool all_is_closed() {
  return eventually([] { return standin_open_mappings() == 0; });
}

// A process that only calls the driver keeps words that count from 0, and sends their handle.
template <typename Body>
void with_handle(Body body, int device = 0, const Environment& environment = {}) {
  in_two_processes(
      [&](int wire) {
        const standin::test::Session session(device);
        const DevicePtr address = allocated();
        for (std::size_t i = 0; i < kWords; ++i) words_at(address)[i] = i;
        standin::test::send(wire, handle_of(address));
        wait_for(wire);
        EXPECT_OK(standin::cuMemFree_v2(address));
      },
      [&](int wire) {
        body(standin::test::receive<IpcMemHandle>(wire));
        tell(wire);
      },
      environment);
}

TEST(AnIpcHandle, of_a_program_without_the_bus_is_a_tensor_in_place) {
  with_handle([](const IpcMemHandle& handle) {
    const bus::Tensor all = opened(handle);
    EXPECT_EQ(all.device(), kFirst);
    EXPECT_EQ(words_of(all)[kWords - 1], kWords - 1);
    EXPECT_TRUE(all.writable() && all.intact());
    const bus::Tensor part = opened(handle, 80, words(5));
    EXPECT_EQ(words_of(part)[4], 14U);
    const bus::Tensor column = opened(handle, 8, {DType::kUInt64, {3}, {100}});
    EXPECT_EQ(column.data() + 1600, all.data() + 8 + 1600);
    const bus::Tensor backwards = opened(handle, 16, {DType::kUInt64, {3}, {-1}});
    EXPECT_EQ(backwards.data(), all.data() + 16);
    EXPECT_EQ(standin_calls("cuIpcOpenMemHandle_v2"), 1U);
  });
}

TEST(AnIpcHandle, stays_open_until_the_last_tensor_over_it_is_gone) {
  with_handle([](const IpcMemHandle& handle) {
    std::optional<bus::Tensor> one = opened(handle);
    std::optional<bus::Tensor> other = opened(handle, 800, words(2));
    one.reset();
    EXPECT_EQ(words_of(*other)[0], 100U);
    EXPECT_EQ(standin_open_mappings(), 1U);
    other.reset();
    EXPECT_TRUE(all_is_closed());
    EXPECT_EQ(standin_calls("cuIpcCloseMemHandle"), 1U);
    EXPECT_EQ(words_of(opened(handle))[7], 7U);  // and again
    EXPECT_TRUE(all_is_closed());
  });
}

TEST(AnIpcHandle, is_closed_after_the_work_that_was_enqueued_with_it) {
  with_handle([](const IpcMemHandle& handle) {
    const TestStream first;
    const TestStream second;
    std::uint64_t sum = 0;
    std::optional<bus::Tensor> tensor = opened(handle);
    for (const TestStream* stream : {&first, &second}) {
      tensor->use_on(stream->get());
      stream->pause();
      stream->launch([data = words_of(*tensor), &sum] { sum += data[3]; });
    }
    tensor.reset();
    first.resume();
    first.synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(standin_calls("cuIpcCloseMemHandle"), 0U);
    second.resume();
    EXPECT_TRUE(all_is_closed());
    EXPECT_EQ(sum, 6U);
  });
}

// A capture forbids other threads to ask for an event, unless they say that it is no part of it.
TEST(AnIpcHandle, is_closed_after_its_work_also_while_another_stream_is_captured) {
  with_handle([](const IpcMemHandle& handle) {
    const TestStream stream;
    const TestStream captured;
    std::optional<bus::Tensor> tensor = opened(handle);
    tensor->use_on(stream.get());
    stream.pause();
    stream.launch([] {});
    standin_capture(captured.get(), true);
    tensor.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(standin_open_mappings(), 1U);
    stream.resume();
    EXPECT_TRUE(all_is_closed());
    standin_capture(captured.get(), false);
  });
}

TEST(AnIpcHandle, that_is_let_go_of_while_its_stream_is_captured_is_closed_afterwards) {
  with_handle([](const IpcMemHandle& handle) {
    const TestStream stream;
    std::optional<bus::Tensor> tensor = opened(handle);
    tensor->use_on(stream.get());
    standin_capture(stream.get(), true);
    EXPECT_EQ(code_of([&] { tensor->use_on(stream.get()); }), Code::kUnsupported);
    tensor.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(standin_open_mappings(), 1U);
    standin_capture(stream.get(), false);
    EXPECT_TRUE(all_is_closed());
  });
}

TEST(AnIpcHandle, is_opened_once_by_many_threads_and_by_the_bus) {
  with_handle([](const IpcMemHandle& handle) {
    const auto of_the_bus = device::DeviceImports::open(device::Gpu::at(0), handle, 100);
    EXPECT_EQ(of_the_bus->size(), 100U);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (std::uint64_t n = 0; n < 100; ++n)
          EXPECT_EQ(words_of(opened(handle, 8 * n, words(1)))[0], n);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(standin_calls("cuIpcOpenMemHandle_v2"), 1U);
    EXPECT_EQ(standin_open_mappings(), 1U);
  });
  with_handle([](const IpcMemHandle& handle) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (std::uint64_t n = 0; n < 100; ++n)
          EXPECT_EQ(words_of(opened(handle, 8 * n, words(1)))[0], n);
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(all_is_closed());
    EXPECT_EQ(standin_calls("cuIpcOpenMemHandle_v2"), standin_calls("cuIpcCloseMemHandle"));
  });
}

TEST(AnIpcHandle, is_refused_beyond_its_allocation) {
  with_handle([](const IpcMemHandle& handle) {
    EXPECT_EQ(why_not(handle, 8), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, 0, words(kWords + 1)), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, ~std::size_t{7}, words(1)), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, kBytes + 8, words(0)), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, kBytes, words(0)), std::nullopt);
    EXPECT_EQ(why_not(handle, 0, {DType::kUInt64, {2}, {kWords}}), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, 8, {DType::kUInt64, {3}, {-1}}), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, 4, words(1)), Code::kInvalidArgument);  // not aligned
    EXPECT_EQ(why_not(handle, 0, {DType::kUInt64, {2}, {}}), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, 0, words(), Device::host()), Code::kInvalidArgument);
    EXPECT_EQ(why_not(handle, 0, words(), Device::cuda(7)), Code::kInvalidArgument);
    EXPECT_TRUE(all_is_closed());
  });
}

TEST(AnIpcHandle, of_another_device_is_refused_and_says_which) {
  with_handle(
      [](const IpcMemHandle& handle) {
        EXPECT_EQ(why_not(handle), Code::kInvalidArgument);
        EXPECT_EQ(why_not(handle, 0, words(), Device::cuda(1)), std::nullopt);
        EXPECT_TRUE(all_is_closed());
      },
      1);
  with_handle([](const IpcMemHandle& handle) { EXPECT_EQ(why_not(handle), Code::kUnsupported); }, 1,
              {{"STANDIN_WITHOUT", "peer"}});
  with_handle([](const IpcMemHandle& handle) { EXPECT_EQ(why_not(handle), Code::kUnsupported); }, 0,
              {{"STANDIN_WITHOUT", "legacy_ipc"}});
}

TEST(AnIpcHandle, of_this_process_or_of_memory_that_is_gone_is_refused) {
  in_process([] {
    const standin::test::Session session;
    const DevicePtr address = allocated();
    const IpcMemHandle handle = handle_of(address);
    EXPECT_EQ(why_not(handle), Code::kInvalidArgument);
    EXPECT_EQ(why_not({}), Code::kClosed);
  });
  in_two_processes(
      [](int wire) {
        const standin::test::Session session;
        const DevicePtr address = allocated();
        standin::test::send(wire, handle_of(address));
        EXPECT_OK(standin::cuMemFree_v2(address));
        tell(wire);
        wait_for(wire);
      },
      [](int wire) {
        const auto handle = standin::test::receive<IpcMemHandle>(wire);
        wait_for(wire);
        EXPECT_EQ(why_not(handle), Code::kClosed);
        tell(wire);
      });
}

TEST(AnIpcHandle, names_the_whole_allocation_for_a_program_without_the_bus) {
  in_two_processes(
      [](int wire) {
        const standin::test::Session session;
        const DevicePtr address = allocated();
        words_at(address)[20] = 2020;
        const device::IpcName name = bus::ipc_name_of(bytes_at(address) + 160, 80);
        EXPECT_EQ(name.offset, 160U);
        EXPECT_EQ(name.allocation_bytes, kBytes);
        EXPECT_EQ(name.device, 0);
        standin::test::send(wire, name);
        wait_for(wire);
        EXPECT_EQ(words_at(address)[21], 2121U);
      },
      [](int wire) {
        const standin::test::Session session;
        const auto name = standin::test::receive<device::IpcName>(wire);
        DevicePtr address = 0;
        EXPECT_OK(standin::cuIpcOpenMemHandle_v2(&address, {name.handle}, kIpcLazyPeerAccess));
        EXPECT_EQ(words_at(address + name.offset)[0], 2020U);
        words_at(address + name.offset)[1] = 2121;
        EXPECT_OK(standin::cuIpcCloseMemHandle(address));
        tell(wire);
      });
}

TEST(AnIpcHandle, is_not_given_for_memory_that_has_none) {
  in_process([] {
    const TestStream stream;
    const auto refused = [](const std::byte* data, const char* why) {
      EXPECT_NE(text_of_refusal(data).find(why), std::string::npos) << text_of_refusal(data);
      EXPECT_EQ(code_of([&] { (void)bus::ipc_name_of(data, 8); }), Code::kUnsupported);
    };
    Foreign chunk = Foreign::chunked(1, standin::HandleType::kPosixFd);
    refused(bytes_of(chunk), "cuMemCreate");
    Foreign pooled = Foreign::pooled(kBytes, new_pool(standin::HandleType::kPosixFd), stream.get());
    refused(bytes_of(pooled), "pool");
    DevicePtr managed = 0;
    EXPECT_OK(standin::cuMemAllocManaged(&managed, kBytes, 1));
    refused(bytes_at(managed), "managed");
    const std::byte host{};
    EXPECT_EQ(code_of([&] { (void)bus::ipc_name_of(&host, 1); }), Code::kInvalidArgument);
    EXPECT_EQ(code_of([&] { (void)bus::ipc_name_of(nullptr, 1); }), Code::kInvalidArgument);
    const DevicePtr plain = allocated();
    EXPECT_EQ(code_of([&] { (void)bus::ipc_name_of(bytes_at(plain), kBytes + 1); }),
              Code::kInvalidArgument);
  });
  with_handle([](const IpcMemHandle& handle) {
    const bus::Tensor tensor = opened(handle);
    EXPECT_NE(text_of_refusal(tensor.data()).find("opened by a handle"), std::string::npos);
  });
}

TEST(AnIpcHandle, is_left_alone_by_a_forked_child_and_by_the_end_of_the_process) {
  with_handle([](const IpcMemHandle& handle) {
    std::optional<bus::Tensor> tensor = opened(handle);
    tensorbus::test::Child child([&] {
      const bool refused = why_not(handle) == Code::kForked;
      tensor.reset();
      return refused;
    });
    EXPECT_EQ(child.wait(), "exit 0");
    EXPECT_EQ(words_of(*tensor)[9], 9U);
    new bus::Tensor(std::move(*tensor));  // open when the process ends
  });
}

TEST(AnIpcHandle, whose_program_frees_it_first_shows_what_the_driver_shows) {
  // CUDA leaves it undefined; here the mapping keeps the memory, and nothing else of ours fails.
  in_two_processes(
      [](int wire) {
        const standin::test::Session session;
        const DevicePtr address = allocated();
        words_at(address)[0] = 5;
        standin::test::send(wire, handle_of(address));
        wait_for(wire);
        EXPECT_OK(standin::cuMemFree_v2(address));
        tell(wire);
        wait_for(wire);
      },
      [](int wire) {
        const auto handle = standin::test::receive<IpcMemHandle>(wire);
        std::optional<bus::Tensor> tensor = opened(handle);
        tell(wire);
        wait_for(wire);
        EXPECT_EQ(words_of(*tensor)[0], 5U);
        tensor.reset();
        EXPECT_TRUE(all_is_closed());
        EXPECT_EQ(why_not(handle), Code::kClosed);
        tell(wire);
      });
}

TEST(AnIpcHandle, is_copied_once_when_its_tensor_is_published) {
  const FreshDomain domain;
  with_handle([&](const IpcMemHandle& handle) {
    Writer w(domain);
    Reader r(domain);
    w.wait_for_reader();
    const bus::Tensor tensor = opened(handle);
    TensorView view = TensorView::of(words_of(tensor).data(), {kWords});
    view.device = kFirst;
    view.stream = w.stream.get();
    view.keeper = std::make_shared<bus::Tensor>(tensor);
    tensor.use_on(w.stream.get());
    EXPECT_EQ(w.publisher.publish({.tensors = {view}}).outcome, Outcome::kDone);
    EXPECT_EQ(w.publisher.stats().bytes_copied, kBytes);
    w.stream.synchronize();
    const bus::Sample sample = r.next();
    std::uint64_t last = 0;
    sample.tensor().use_on(r.stream.get());
    r.stream.launch([data = words_of(sample.tensor()), &last] { last = data[kWords - 1]; });
    r.stream.synchronize();
    EXPECT_EQ(last, kWords - 1);
  });
}

}  // namespace
}  // namespace tensorbus
