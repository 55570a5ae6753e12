#include "process.hpp"

namespace standin::test {
namespace {

TEST(Copies, go_between_device_and_host_in_the_streams_order) {
  in_process([] {
    const Session session;
    const Stream stream = new_stream();
    const MappedChunk chunk = new_chunk();
    std::uint64_t from = 1;
    std::uint64_t to = 0;
    const auto at = [](const std::uint64_t& word) { return reinterpret_cast<DevicePtr>(&word); };
    standin_pause(stream);
    EXPECT_OK(cuMemcpyAsync(chunk.address, at(from), sizeof from, stream));
    EXPECT_OK(cuMemcpyAsync(at(to), chunk.address, sizeof to, stream));
    from = 2;  // too early: the copy has not read it yet
    standin_resume(stream);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(to, 2U);
    EXPECT_RESULT(kInvalidValue,
                  cuMemcpyAsync(chunk.address + chunk.bytes - 4, at(from), 8, stream));
    unmap_chunk(chunk);
  });
}

TEST(Values, are_written_and_waited_for_in_registered_or_device_memory) {
  in_process([] {
    const Session session;
    const Stream stream = new_stream();
    const RegisteredPage page;
    const MappedChunk chunk = new_chunk();
    std::uint64_t own = 0;
    EXPECT_OK(cuStreamWriteValue64_v2(stream, page.address(1), 5, 0));
    EXPECT_OK(cuStreamWaitValue64_v2(stream, page.address(1), 5, 0));
    EXPECT_OK(cuStreamWriteValue64_v2(stream, chunk.address, 6, 0));
    EXPECT_RESULT(kInvalidValue, cuStreamWriteValue64_v2(stream, page.address() + 4, 5, 0));
    EXPECT_RESULT(kInvalidValue,
                  cuStreamWriteValue64_v2(stream, reinterpret_cast<DevicePtr>(&own), 5, 0));
    EXPECT_RESULT(kInvalidValue, cuStreamWaitValue64_v2(stream, page.address(), 5, 1));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(page.word(1).load(), 5U);
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(chunk.address), 6U);
  });
}

TEST(DeviceMemory, is_used_by_streams_of_devices_with_access) {
  in_process([] {
    const Session session(1);
    const Stream stream = new_stream();
    const MappedChunk chunk = new_chunk(0);
    const AccessDesc read{{LocationType::kDevice, 1}, AccessFlags::kRead};
    EXPECT_RESULT(kInvalidValue, cuStreamWriteValue64_v2(stream, chunk.address, 6, 0));
    EXPECT_RESULT(kInvalidValue, cuMemcpyAsync(chunk.address, chunk.address + 8, 8, stream));
    EXPECT_OK(cuMemSetAccess(chunk.address, chunk.bytes, &read, 1));
    EXPECT_RESULT(kInvalidValue, cuStreamWriteValue64_v2(stream, chunk.address, 6, 0));
    EXPECT_OK(cuStreamWaitValue64_v2(stream, chunk.address, 0, 0));
    EXPECT_RESULT(kInvalidValue, cuMemcpyAsync(chunk.address, chunk.address + 8, 8, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  });
}

TEST(Values, are_compared_in_a_circle) {
  in_process([] {
    const Session session;
    const Stream stream = new_stream();
    const RegisteredPage page;
    page.word() = 3;
    EXPECT_OK(cuStreamWaitValue64_v2(stream, page.address(), ~std::uint64_t{0}, 0));  // 3 - -1 >= 0
    EXPECT_OK(cuStreamSynchronize(stream));
  });
}

TEST(Values, order_the_streams_of_two_processes) {
  const int memfd = RegisteredPage::new_memfd();
  in_two_processes(
      [&](int wire) {
        const Session session;
        const RegisteredPage page(memfd);
        const Stream stream = new_stream();
        EXPECT_EQ(receive<int>(wire), 1);
        EXPECT_OK(cuStreamWriteValue64_v2(stream, page.address(), 7, 0));
        EXPECT_OK(cuStreamWaitValue64_v2(stream, page.address(1), 8, 0));
        EXPECT_OK(cuStreamSynchronize(stream));
      },
      [&](int wire) {
        const Session session;
        const RegisteredPage page(memfd);
        const Stream stream = new_stream();
        EXPECT_OK(cuStreamWaitValue64_v2(stream, page.address(), 7, 0));
        EXPECT_OK(cuStreamWriteValue64_v2(stream, page.address(1), 8, 0));
        EXPECT_RESULT(kNotReady, cuStreamQuery(stream));
        EXPECT_EQ(page.word(1).load(), 0U);
        send(wire, 1);
        EXPECT_OK(cuStreamSynchronize(stream));
        EXPECT_EQ(page.word().load(), 7U);
      });
}

}  // namespace
}  // namespace standin::test
