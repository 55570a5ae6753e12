#include <atomic>
#include <thread>
#include <vector>

#include "process.hpp"

namespace standin::test {
namespace {

// The numbers in the order in which streams wrote them. Kept for ever: streams outlive tests.
struct Order {
  std::mutex mutex;
  std::vector<int> numbers;

  std::vector<int> so_far() {
    const std::lock_guard lock(mutex);
    return numbers;
  }
};
struct Note {
  Order* order;
  int number;
};

void write_down(void* note_pointer) {
  const Note& note = *static_cast<Note*>(note_pointer);
  const std::lock_guard lock(note.order->mutex);
  note.order->numbers.push_back(note.number);
}
void launch(Stream stream, Order& order, int number) {
  standin_launch(stream, write_down, new Note{&order, number});
}
void wait_until_complete(Event event) {
  while (cuEventQuery(event) == Result::kNotReady) std::this_thread::yield();
  EXPECT_OK(cuEventQuery(event));
}

using Numbers = std::vector<int>;

TEST(Streams, run_in_their_own_order_and_are_ready_after_it) {
  in_process([] {
    const Session session;
    Order& order = *new Order;
    const Stream stream = new_stream();
    EXPECT_OK(cuStreamQuery(stream));
    standin_pause(stream);
    for (int number = 0; number < 3; ++number) launch(stream, order, number);
    EXPECT_RESULT(kNotReady, cuStreamQuery(stream));
    EXPECT_EQ(order.so_far(), Numbers{});
    standin_resume(stream);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuStreamQuery(stream));
    EXPECT_EQ(order.so_far(), (Numbers{0, 1, 2}));
    EXPECT_OK(cuStreamDestroy_v2(stream));
    EXPECT_RESULT(kInvalidHandle, cuStreamQuery(stream));
  });
}

TEST(Streams, do_not_wait_for_each_other_unless_told) {
  in_process([] {
    const Session session;
    Order& order = *new Order;
    const Stream slow = new_stream();
    const Stream fast = new_stream();
    const Event event = new_event();
    standin_pause(slow);
    launch(slow, order, 1);
    EXPECT_OK(cuEventRecord(event, slow));
    launch(fast, order, 2);
    EXPECT_OK(cuStreamSynchronize(fast));
    EXPECT_EQ(order.so_far(), Numbers{2});
    EXPECT_OK(cuStreamWaitEvent(fast, event, 0));
    launch(fast, order, 3);
    EXPECT_RESULT(kNotReady, cuEventQuery(event));
    standin_resume(slow);
    EXPECT_OK(cuStreamSynchronize(fast));
    EXPECT_EQ(order.so_far(), (Numbers{2, 1, 3}));
    EXPECT_OK(cuEventQuery(event));
    EXPECT_OK(cuEventDestroy_v2(event));
    EXPECT_RESULT(kInvalidHandle, cuEventQuery(event));
  });
}

TEST(Streams, wait_for_what_an_event_was_when_they_were_told) {
  in_process([] {
    const Session session;
    Order& order = *new Order;
    const Stream first = new_stream();
    const Stream second = new_stream();
    const Event event = new_event();
    EXPECT_OK(cuEventQuery(event));  // never recorded: complete
    EXPECT_OK(cuEventRecord(event, first));
    wait_until_complete(event);
    EXPECT_OK(cuStreamWaitEvent(second, event, 0));
    standin_pause(first);
    EXPECT_OK(cuEventRecord(event, first));
    launch(second, order, 1);
    EXPECT_OK(cuStreamSynchronize(second));
    EXPECT_EQ(order.so_far(), Numbers{1});
    standin_resume(first);
    wait_until_complete(event);
  });
}

TEST(Streams, finish_what_they_had_when_they_are_destroyed) {
  in_process([] {
    const Session session;
    Order& order = *new Order;
    const Stream stream = new_stream();
    const Event event = new_event();
    standin_pause(stream);
    launch(stream, order, 1);
    EXPECT_OK(cuEventRecord(event, stream));
    standin_resume(stream);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    wait_until_complete(event);
    EXPECT_EQ(order.so_far(), Numbers{1});
  });
}

TEST(NullStream, and_streams_that_block_wait_for_each_other) {
  in_process([] {
    const Session session;
    Order& order = *new Order;
    const Stream blocking = new_stream(0);
    const Stream free = new_stream();
    standin_pause(blocking);
    launch(blocking, order, 1);
    launch(nullptr, order, 2);
    launch(blocking, order, 3);
    launch(free, order, 0);
    EXPECT_OK(cuStreamSynchronize(free));
    EXPECT_EQ(order.so_far(), Numbers{0});
    EXPECT_RESULT(kNotReady, cuStreamQuery(nullptr));
    standin_resume(blocking);
    EXPECT_OK(cuStreamSynchronize(blocking));
    EXPECT_EQ(order.so_far(), (Numbers{0, 1, 2, 3}));
  });
}

TEST(NullStream, has_a_handle_and_so_has_each_threads_own) {
  in_process([] {
    const Session session;
    const auto legacy = reinterpret_cast<Stream>(std::uintptr_t{1});
    const auto per_thread = reinterpret_cast<Stream>(std::uintptr_t{2});
    Order& order = *new Order;
    standin_pause(legacy);
    launch(nullptr, order, 1);
    EXPECT_RESULT(kNotReady, cuStreamQuery(legacy));
    EXPECT_OK(cuStreamQuery(per_thread));
    EXPECT_RESULT(kInvalidHandle, cuStreamDestroy_v2(per_thread));
    standin_resume(nullptr);
    EXPECT_OK(cuStreamSynchronize(legacy));
  });
}

TEST(HostFunctions, run_in_order_and_may_not_call_the_driver) {
  in_process([] {
    const Session session;
    static std::atomic<int> result{-1};
    const Stream stream = new_stream();
    const auto call_driver = [](void* other) {
      result = static_cast<int>(cuStreamQuery(static_cast<Stream>(other)));
    };
    EXPECT_OK(cuLaunchHostFunc(stream, call_driver, nullptr));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(Result{result.load()}, Result::kNotPermitted);
  });
}

// Registered before cuInit, so it runs after the stand-in has stopped all streams.
Stream stream_at_exit = nullptr;
void resume_at_exit() {
  standin_resume(stream_at_exit);
  for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
}

TEST(Exit, is_not_held_up_by_a_stream_that_waits_for_ever) {
  in_process([] {
    static const Session session;
    static const auto* const page = new RegisteredPage;
    EXPECT_OK(cuStreamWaitValue64_v2(new_stream(), page->address(), 1, 0));
    std::exit(0);
  });
}

TEST(Exit, runs_nothing_more) {
  in_process([] {
    std::atexit(resume_at_exit);
    [[maybe_unused]] static const auto* const session = new Session;
    stream_at_exit = new_stream();
    standin_pause(stream_at_exit);
    standin_launch(stream_at_exit, [](void*) { std::abort(); }, nullptr);
    std::exit(0);
  });
}

}  // namespace
}  // namespace standin::test
