#include "process.hpp"

namespace standin::test {
namespace {

CaptureStatus status_of(Stream stream) {
  CaptureStatus status{};
  EXPECT_OK(cuStreamIsCapturing(stream, &status));
  return status;
}

TEST(Captures, refuse_what_they_cannot_hold_and_are_invalid_after_it) {
  in_process([] {
    const Session session;
    const RegisteredPage page;
    const Event event = new_event();
    const auto refused_by = [&](auto&& call) {
      const Stream stream = new_stream();
      EXPECT_EQ(status_of(stream), CaptureStatus::kNone);
      standin_capture(stream, true);
      EXPECT_EQ(status_of(stream), CaptureStatus::kActive);
      EXPECT_RESULT(kStreamCaptureUnsupported, call(stream));
      EXPECT_EQ(status_of(stream), CaptureStatus::kInvalidated);
      standin_capture(stream, false);
      EXPECT_EQ(status_of(stream), CaptureStatus::kNone);
      EXPECT_OK(cuStreamQuery(stream));
    };
    refused_by([&](Stream at) { return cuStreamWriteValue64_v2(at, page.address(), 1, 0); });
    refused_by([&](Stream at) { return cuStreamWaitValue64_v2(at, page.address(), 1, 0); });
    refused_by([&](Stream at) { return cuEventRecord(event, at); });
    refused_by([&](Stream at) { return cuStreamQuery(at); });
    refused_by([&](Stream at) { return cuStreamSynchronize(at); });
    EXPECT_EQ(page.word().load(), 0U);
  });
}

TEST(Captures, take_copies_and_kernels_and_run_none) {
  in_process([] {
    const Session session;
    const Stream stream = new_stream();
    const Stream other = new_stream();
    const auto must_not_run = [](void*) { std::abort(); };
    standin_capture(stream, true);
    standin_launch(stream, must_not_run, nullptr);
    EXPECT_OK(cuLaunchHostFunc(stream, must_not_run, nullptr));
    EXPECT_EQ(status_of(stream), CaptureStatus::kActive);
    EXPECT_OK(cuStreamQuery(other));
    standin_capture(stream, false);
    EXPECT_OK(cuStreamSynchronize(stream));
  });
}

}  // namespace
}  // namespace standin::test
