#include "process.hpp"

namespace standin::test {
namespace {

Event new_shared_event() {
  Event event = nullptr;
  EXPECT_OK(cuEventCreate(&event, kEventDisableTiming | kEventInterprocess));
  return event;
}
IpcEventHandle name_of(Event event) {
  IpcEventHandle name;
  EXPECT_OK(cuIpcGetEventHandle(&name, event));
  return name;
}

TEST(IpcEvents, order_the_streams_of_two_processes) {
  in_two_processes(
      [&](int wire) {
        const Session session;
        const Stream stream = new_stream();
        const Event event = new_shared_event();
        send(wire, name_of(event));
        standin_pause(stream);
        EXPECT_OK(cuEventRecord(event, stream));
        send(wire, 1);
        EXPECT_EQ(receive<int>(wire), 2);
        standin_resume(stream);
        EXPECT_EQ(receive<int>(wire), 3);
        EXPECT_OK(cuEventDestroy_v2(event));
      },
      [&](int wire) {
        const Session session;
        const Stream stream = new_stream();
        Event event = nullptr;
        EXPECT_OK(cuIpcOpenEventHandle(&event, receive<IpcEventHandle>(wire)));
        EXPECT_EQ(receive<int>(wire), 1);
        EXPECT_OK(cuStreamWaitEvent(stream, event, 0));
        EXPECT_RESULT(kNotReady, cuStreamQuery(stream));
        EXPECT_RESULT(kNotReady, cuEventQuery(event));
        send(wire, 2);
        EXPECT_OK(cuStreamSynchronize(stream));
        EXPECT_OK(cuEventQuery(event));
        EXPECT_OK(cuEventDestroy_v2(event));
        send(wire, 3);
      });
}

TEST(IpcEvents, are_refused_where_they_make_no_sense) {
  in_process([] {
    const Session session;
    Event event = nullptr;
    EXPECT_RESULT(kInvalidValue, cuEventCreate(&event, kEventInterprocess));
    IpcEventHandle name;
    EXPECT_RESULT(kInvalidHandle, cuIpcGetEventHandle(&name, new_event()));
    const IpcEventHandle own = name_of(new_shared_event());
    EXPECT_RESULT(kInvalidContext, cuIpcOpenEventHandle(&event, own)) << "in the process itself";
    EXPECT_RESULT(kInvalidHandle, cuIpcOpenEventHandle(&event, name)) << "zeros";
  });
  in_process({{"STANDIN_WITHOUT", "ipc_event"}}, [] {
    const Session session;
    IpcEventHandle name;
    EXPECT_RESULT(kNotSupported, cuIpcGetEventHandle(&name, new_shared_event()));
  });
}

// Nothing is promised of it; here it never completes.
TEST(IpcEvents, of_a_process_that_died_first_are_never_completed) {
  in_two_processes(
      [&](int wire) {
        const Session session;
        const Stream stream = new_stream();
        const Event event = new_shared_event();
        standin_pause(stream);
        EXPECT_OK(cuEventRecord(event, stream));
        send(wire, name_of(event));
        EXPECT_EQ(receive<int>(wire), 1);
      },
      [&](int wire) {
        const Session session;
        const Stream stream = new_stream();
        Event event = nullptr;
        EXPECT_OK(cuIpcOpenEventHandle(&event, receive<IpcEventHandle>(wire)));
        send(wire, 1);
        int gone = 0;
        EXPECT_EQ(::recv(wire, &gone, sizeof gone, 0), 0);
        EXPECT_OK(cuStreamWaitEvent(stream, event, 0));
        EXPECT_RESULT(kNotReady, cuStreamQuery(stream));
      });
}

}  // namespace
}  // namespace standin::test
