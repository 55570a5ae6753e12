// Streams of several devices, of several threads, and in graphs.

#include "ends.hpp"

namespace tensorbus {
namespace {

using namespace testing;

class CudaStreams : public InEachOrder {};
class CudaStreamsAhead : public InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaStreams, kEachOrder, name_of_order);
INSTANTIATE_TEST_SUITE_P(Cuda, CudaStreamsAhead, kOrderAhead, name_of_order);

TEST_P(CudaStreams, what_is_let_go_during_a_capture_comes_back_after_it) {
  const FreshDomain domain;
  in_process([&] {
    const bus::ParticipantRef us = domain.join();
    bus::Publisher publisher("frames", {}, us);
    bus::Subscriber subscriber("frames", {}, us);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    const TestStream stream;
    publish_filled(publisher, stream, 1);
    stream.synchronize();
    auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    sample->tensor().use_on(stream.get());
    const std::byte* const where = sample->tensor().data();
    standin_capture(stream.get(), true);
    sample.reset();
    const auto used = [&] {
      (void)publisher.stats();
      return us->memory_use(Device::cuda()).used_bytes;
    };
    TensorView view = TensorView::of(reinterpret_cast<const std::uint64_t*>(where), {kWords});
    view.device = Device::cuda();
    // Nobody looks at the lease that is gone.
    EXPECT_EQ(code_of([&] { publisher.publish(view); }), Code::kUnsupported);
    EXPECT_NE(used(), 0U);
    standin_capture(stream.get(), false);
    while (subscriber.try_receive()) {
    }
    EXPECT_TRUE(eventually([&] { return used() == 0; }));
  });
}

TEST_P(CudaStreams, a_copy_for_a_message_that_came_to_nothing_ends_before_its_memory_is_used) {
  const FreshDomain domain;
  in_process([&] {
    const TestStream other(1);
    standin::DevicePtr large = 0;
    EXPECT_OK(standin::cuMemAlloc_v2(&large, 16 << 20));
    const TestStream slow;
    bus::Publisher publisher("frames", {},
                             domain.join({.cuda_budget_bytes = std::size_t{8} << 20}));
    standin::DevicePtr foreign = 0;
    EXPECT_OK(standin::cuMemAlloc_v2(&foreign, kWords * 8));
    const auto view_of = [](standin::DevicePtr address, std::int64_t words) {
      return TensorView::of(reinterpret_cast<const std::uint64_t*>(address), {words});
    };
    std::vector<TensorView> views{view_of(foreign, kWords), view_of(large, (16 << 20) / 8)};
    views[0].device = Device::cuda(0);
    views[0].stream = slow.get();
    views[1].device = Device::cuda(1);  // where there is no room
    views[1].stream = other.get();
    const std::byte* const first = loan_of(publisher).data();
    slow.pause();
    EXPECT_EQ(code_of([&] { publisher.publish(Value(), views); }), Code::kOutOfMemory);
    const bus::Loan next = loan_of(publisher);
    EXPECT_NE(next.data(), first) << "where the copy is still to go";
    slow.resume();
    slow.synchronize();
  });
}

TEST_P(CudaStreamsAhead, tensors_of_two_devices_are_whole_together) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        const TestStream other(1);
        w.wait_for_reader();
        standin::DevicePtr foreign = 0;
        EXPECT_OK(standin::cuMemAlloc_v2(&foreign, kWords * 8));
        const std::span words(reinterpret_cast<std::uint64_t*>(foreign), kWords);
        bus::Loan loan = loan_of(w.publisher);
        w.stream.launch([words = words_of(loan)] { write_pattern(words, 1); });
        other.pause();
        other.launch([words] { write_pattern(words, 2); });
        TensorView first = loan.view();
        first.stream = w.stream.get();
        TensorView second = TensorView::of(words.data(), {kWords});
        second.device = Device::cuda(1);
        second.stream = other.get();
        w.publisher.publish(Value(), {first, second});
        wait_for(wire);
        other.resume();
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        const Found first = read_on(r.stream, sample.tensors()[0]);
        const TestStream other(1);
        const Found second = read_on(other, sample.tensors()[1]);
        tell(wire);
        r.stream.synchronize();
        other.synchronize();
        EXPECT_EQ(*first, 1U);
        EXPECT_EQ(*second, 2U);
        tell(wire);
      });
}

// The writer cannot do what the reader can, and the other way round.
class CudaStreamsOfTwoKinds : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaStreamsOfTwoKinds,
                         ::testing::Values(std::pair("streams", "host"),
                                           std::pair("host", "streams")),
                         [](const auto& kinds) {
                           return std::string(kinds.param.first) + "_and_" + kinds.param.second;
                         });

TEST_P(CudaStreamsOfTwoKinds, agree) {
  const FreshDomain domain;
  const auto order_by = [](const char* order) { ::setenv("TENSORBUS_CUDA_ORDER", order, 1); };
  in_two_processes(
      [&](int wire) {
        order_by(GetParam().first);
        Writer w(domain);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          w.stream.pause();
          publish_filled(w.publisher, w.stream, seed);
          tell(wire);
          w.stream.resume();
          wait_for(wire);
        }
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
      },
      [&](int wire) {
        order_by(GetParam().second);
        Reader r(domain);
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          wait_for(wire);
          const Found found = read_on(r.stream, r.next().tensor());
          r.stream.synchronize();
          EXPECT_EQ(*found, seed);
          tell(wire);
        }
      });
}

TEST_P(CudaStreams, the_default_stream_of_a_thread_is_refused) {
  const FreshDomain domain;
  in_process([&] {
    bus::Publisher publisher("frames", {}, domain.join());
    const TestStream stream;
    EXPECT_EQ(code_of([&] {
                publisher.publish(loan_of(publisher), reinterpret_cast<void*>(std::uintptr_t{2}));
              }),
              Code::kUnsupported);
  });
}

TEST_P(CudaStreams, what_is_captured_into_a_graph_is_refused) {
  const FreshDomain domain;
  in_process([&] {
    const bus::ParticipantRef us = domain.join();
    bus::Publisher publisher("frames", {}, us);
    bus::Subscriber subscriber("frames", {}, us);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    const TestStream stream;
    const TestStream captured;
    standin_capture(captured.get(), true);
    EXPECT_EQ(code_of([&] { publisher.publish(loan_of(publisher), captured.get()); }),
              Code::kUnsupported);
    stream.pause();
    publish_filled(publisher, stream, 1);
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    const auto refused = [&](void* used) {
      return code_of([&] { sample->tensor().use_on(used); }) == Code::kUnsupported;
    };
    EXPECT_TRUE(refused(captured.get()));
    stream.resume();
    stream.synchronize();
    EXPECT_TRUE(refused(captured.get())) << "also when all is written";
    EXPECT_TRUE(refused(reinterpret_cast<void*>(std::uintptr_t{2})));
    const bus::Sample copy = sample->copy();
    standin_finish();
    EXPECT_EQ(code_of([&] { copy.tensor().use_on(captured.get()); }), Code::kUnsupported);
  });
}

TEST_P(CudaStreams, a_capture_in_a_program_keeps_nobody_else_in_it_from_memory) {
  const FreshDomain domain;
  in_process([&] {
    const bus::ParticipantRef us = domain.join();
    bus::Publisher publisher("frames", {}, us);
    bus::Subscriber subscriber("frames", {}, us);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    const TestStream stream;
    const TestStream captured;
    standin_capture(captured.get(), true);
    publish_filled(publisher, stream, 1);
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    const Found found = read_on(stream, sample->tensor());
    stream.synchronize();
    EXPECT_EQ(*found, 1U);
  });
}

}  // namespace
}  // namespace tensorbus
