#include <sys/mman.h>

#include "process.hpp"

namespace standin::test {
namespace {

using tensorbus::platform::page_bytes;

TEST(HostMemory, is_registered_in_whole_pages_and_once) {
  in_process([] {
    const Session session;
    alignas(4096) static std::byte pages[4 * 4096];
    EXPECT_RESULT(kInvalidValue, cuMemHostRegister_v2(pages, 0, 0));
    EXPECT_RESULT(kInvalidValue, cuMemHostRegister_v2(pages + 8, page_bytes(), 0));
    EXPECT_OK(cuMemHostRegister_v2(pages + page_bytes(), 2 * page_bytes(), 0));
    EXPECT_RESULT(kHostMemoryAlreadyRegistered, cuMemHostRegister_v2(pages, 2 * page_bytes(), 0));
    EXPECT_OK(cuMemHostRegister_v2(pages, page_bytes(), 0));
    EXPECT_EQ(static_cast<int>(cuMemHostUnregister(pages + 2 * page_bytes())), 713);
    EXPECT_OK(cuMemHostUnregister(pages + page_bytes()));
    EXPECT_OK(cuMemHostUnregister(pages));
  });
}

TEST(HostMemory, is_there_and_can_be_written) {
  in_process([] {
    const Session session;
    const std::size_t page = page_bytes();
    auto* const pages = static_cast<std::byte*>(
        ::mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(::mprotect(pages + page, page, PROT_READ), 0);
    ASSERT_EQ(::munmap(pages + 2 * page, page), 0);
    EXPECT_OK(cuMemHostRegister_v2(pages, page, 0));
    EXPECT_RESULT(kInvalidValue, cuMemHostRegister_v2(pages + page, page, 0));
    ASSERT_EQ(::mprotect(pages + page, page, PROT_READ | PROT_WRITE), 0);
    EXPECT_RESULT(kInvalidValue, cuMemHostRegister_v2(pages + page, 2 * page, 0));
    EXPECT_OK(cuMemHostRegister_v2(pages + page, page, 0));
  });
}

TEST(HostMemory, has_the_same_address_on_every_device_where_it_was_asked_for) {
  in_process([] {
    const Session session;
    const RegisteredPage page;
    alignas(4096) static std::byte own[4096];
    DevicePtr address = 0;
    EXPECT_OK(cuMemHostRegister_v2(own, sizeof own, kHostRegisterDeviceMap));
    EXPECT_OK(cuMemHostGetDevicePointer_v2(&address, own, 0));
    const Session other(1);
    EXPECT_OK(cuMemHostGetDevicePointer_v2(&address, page.data() + 8, 0));
    EXPECT_EQ(address, page.address(1));
    EXPECT_RESULT(kInvalidValue, cuMemHostGetDevicePointer_v2(&address, own, 0));
    EXPECT_RESULT(kInvalidValue, cuMemHostGetDevicePointer_v2(&address, &address, 0));
  });
}

TEST(HostMemory, may_not_be_unregistered_while_a_stream_uses_it) {
  EXPECT_EQ(outcome_in_process({},
                               [] {
                                 const Session session;
                                 const RegisteredPage page;
                                 const Stream stream = new_stream();
                                 EXPECT_OK(cuStreamWaitValue64_v2(stream, page.address(), 1, 0));
                               }),
            "signal 6");
}

// As with a GPU: a thread that sees the written value knows that the stream is done with it.
TEST(HostMemory, may_be_unregistered_when_the_last_value_that_a_stream_writes_is_there) {
  in_process([] {
    const Session session;
    const Stream stream = new_stream();
    for (int round = 0; round < 2'000; ++round) {
      const RegisteredPage page;
      EXPECT_OK(cuStreamWriteValue64_v2(stream, page.address(), 1, 0));
      while (page.word().load(std::memory_order_acquire) != 1) {
      }
    }
  });
}

}  // namespace
}  // namespace standin::test
