#include <dlfcn.h>

#include <array>

#include "process.hpp"

namespace standin::test {
namespace {

Uuid uuid_of(Device device) {
  Uuid uuid;
  EXPECT_OK(cuDeviceGetUuid_v2(&uuid, device));
  return uuid;
}
int count_devices() {
  int count = -1;
  EXPECT_OK(cuDeviceGetCount(&count));
  return count;
}

TEST(Library, exports_every_function) {
#define STANDIN_LOOK_UP(name, symbol, parameters) \
  EXPECT_NE(::dlsym(RTLD_DEFAULT, #symbol), nullptr) << #symbol;
  TENSORBUS_CUDA_FUNCTIONS(STANDIN_LOOK_UP)
#undef STANDIN_LOOK_UP
}

TEST(Init, comes_before_every_other_call) {
  in_process([] {
    int number = 0;
    Context context = nullptr;
    EXPECT_RESULT(kNotInitialized, cuDeviceGetCount(&number));
    EXPECT_RESULT(kNotInitialized, cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_RESULT(kNotInitialized, cuStreamQuery(nullptr));
    EXPECT_OK(cuDriverGetVersion(&number));
    EXPECT_OK(cuInit(0));
    EXPECT_OK(cuInit(0));
    EXPECT_EQ(count_devices(), 2);
  });
}

TEST(Init, finds_no_device_where_none_is_or_none_is_visible) {
  in_process({{"STANDIN_DEVICES", "0"}}, [] {
    int count = 0;
    EXPECT_RESULT(kNoDevice, cuInit(0));
    EXPECT_RESULT(kNotInitialized, cuDeviceGetCount(&count));
  });
  in_process({{"CUDA_VISIBLE_DEVICES", ""}}, [] { EXPECT_RESULT(kNoDevice, cuInit(0)); });
}

TEST(Init, is_not_inherited_by_a_forked_child) {
  in_process([] {
    const Session session;
    const Stream stream = new_stream();
    EXPECT_OK(cuStreamSynchronize(stream));
    Child child([&] {
      int count = 0;
      Stream other = nullptr;
      EXPECT_RESULT(kNotInitialized, cuDeviceGetCount(&count));
      EXPECT_RESULT(kNotInitialized, cuInit(0));
      EXPECT_RESULT(kNotInitialized, cuStreamCreate(&other, 0));
      EXPECT_RESULT(kNotInitialized, cuStreamSynchronize(stream));
      return !::testing::Test::HasFailure();
    });
    EXPECT_EQ(child.wait(), "exit 0");
  });
}

// Streams that wait lock what the child's end would lock too.
TEST(Init, does_not_hold_up_a_forked_child_that_ends) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "what it does at the end of a process locks up in a child beside threads";
#endif
  in_process([] {
    const Session session;
    const RegisteredPage page;
    const Stream stream = new_stream();
    EXPECT_OK(cuStreamWaitValue64_v2(stream, page.address(), 1, 0));
    for (int count = 0; count < 5; ++count) {
      Child child([]() -> bool { std::exit(0); });
      EXPECT_EQ(child.wait(), "exit 0");
    }
    page.word() = 1;
    EXPECT_OK(cuStreamSynchronize(stream));
  });
}

TEST(Devices, keep_their_uuid_where_their_ordinal_differs) {
  in_two_processes(
      [](int wire) {
        EXPECT_OK(cuInit(0));
        send(wire, uuid_of(0));
        send(wire, uuid_of(1));
      },
      [](int wire) {
        EXPECT_OK(cuInit(0));
        EXPECT_EQ(count_devices(), 2);
        EXPECT_EQ(receive<Uuid>(wire), uuid_of(1));
        EXPECT_EQ(receive<Uuid>(wire), uuid_of(0));
      },
      {{"CUDA_VISIBLE_DEVICES", "1,0"}});
}

TEST(Devices, end_at_the_first_number_that_is_none) {
  in_process({{"CUDA_VISIBLE_DEVICES", "1,7,0"}}, [] {
    EXPECT_OK(cuInit(0));
    EXPECT_EQ(count_devices(), 1);
    std::array<char, 64> name{};
    EXPECT_OK(cuDeviceGetName(name.data(), 64, 0));
    EXPECT_STREQ(name.data(), "Stand-in 1");
    EXPECT_RESULT(kInvalidDevice, cuDeviceGetName(name.data(), 64, 1));
  });
}

TEST(Devices, can_do_what_the_environment_does_not_take_away) {
  const auto has = [](DeviceAttribute attribute) {
    int value = -1;
    EXPECT_OK(cuDeviceGetAttribute(&value, attribute, 0));
    return value;
  };
  in_process([&] {
    EXPECT_OK(cuInit(0));
    EXPECT_EQ(has(DeviceAttribute::kVirtualMemorySupported), 1);
    EXPECT_EQ(has(DeviceAttribute::kStreamMemOps64Supported), 1);
  });
  in_process({{"STANDIN_WITHOUT", "vmm,mem_ops,peer,host_register,posix_fd"}}, [&] {
    const Session session;
    EXPECT_EQ(has(DeviceAttribute::kVirtualMemorySupported), 0);
    EXPECT_EQ(has(DeviceAttribute::kStreamMemOps64Supported), 0);
    int can = -1;
    EXPECT_OK(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(can, 0);
    AllocationHandle handle = 0;
    const AllocationProp wanted = exportable_on(0);
    EXPECT_RESULT(kNotSupported, cuMemCreate(&handle, kChunkBytes, &wanted, 0));
    EXPECT_RESULT(kNotSupported, cuStreamWriteValue64_v2(nullptr, 8, 0, 0));
    EXPECT_RESULT(kNotSupported, cuMemHostRegister_v2(&handle, kChunkBytes, 0));
  });
}

}  // namespace
}  // namespace standin::test
