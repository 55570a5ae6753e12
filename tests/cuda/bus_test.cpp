// Tensors of a GPU from process to process.

#include "ends.hpp"

namespace tensorbus {
namespace {

using namespace testing;

class CudaBus : public InEachOrder {};
class CudaBusAhead : public InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaBus, kEachOrder, name_of_order);
INSTANTIATE_TEST_SUITE_P(Cuda, CudaBusAhead, kOrderAhead, name_of_order);

TEST_P(CudaBus, a_loan_is_filled_and_read_by_kernels_and_copied_by_nobody) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          publish_filled(w.publisher, w.stream, seed);
          wait_for(wire);
        }
        EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
        EXPECT_EQ(w.us->memory_use(Device::cuda()).segments, 1U);
        EXPECT_EQ(w.us->memory_use().segments, 0U);
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const bus::Sample sample = r.next();
          EXPECT_EQ(sample.tensor().device(), Device::cuda(0));
          const Found found = read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          EXPECT_EQ(*found, seed);
          EXPECT_TRUE(sample.tensor().intact());
          tell(wire);
        }
        wait_for(wire);
      });
}

TEST_P(CudaBusAhead, a_tensor_arrives_before_it_is_written_and_is_read_afterwards) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 7);
        wait_for(wire);
        w.stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        EXPECT_FALSE(r.stream.idle());
        tell(wire);
        r.stream.synchronize();
        EXPECT_EQ(*found, 7U);
        tell(wire);
      });
}

TEST_P(CudaBus, memory_is_used_again_when_the_readers_stream_has_passed) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 3);
        wait_for(wire);  // it has let go, and its kernel has not run
        w.stream.synchronize();
        EXPECT_NE(w.used_bytes(), 0U);
        for (std::uint64_t seed = 100; seed < 105; ++seed)
          publish_filled(w.publisher, w.stream, seed);
        EXPECT_NE(w.used_bytes(), 0U);
        w.stream.synchronize();
        tell(wire);
        wait_for(wire);  // its kernel has run
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        Found found;
        {
          const bus::Sample sample = r.next();
          r.stream.pause();
          found = read_on(r.stream, sample.tensor());
        }
        tell(wire);
        wait_for(wire);
        while (r.subscriber.try_receive()) {  // unread
        }
        r.stream.resume();
        r.stream.synchronize();
        EXPECT_EQ(*found, 3U);
        tell(wire);
        wait_for(wire);
      });
}

TEST_P(CudaBus, what_nobody_took_is_used_again_when_its_writer_has_passed) {
  const FreshDomain domain;
  in_process([&] {
    bus::Publisher publisher("frames", {}, domain.join());
    const TestStream slow;
    slow.pause();
    publish_filled(publisher, slow, 1);
    const bus::Loan first = loan_of(publisher);
    const bus::Loan second = loan_of(publisher);
    slow.resume();
    slow.synchronize();
    const bus::Loan third = loan_of(publisher);
    EXPECT_EQ(first.data() + kWords * 8, second.data());
    EXPECT_EQ(third.data() + kWords * 8, first.data()) << "where the published one was";
  });
}

TEST_P(CudaBus, ordinals_are_each_processes_own) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        bus::Loan loan = loan_of(w.publisher, 1);
        w.stream.launch([words = words_of(loan)] { write_pattern(words, 5); });
        w.publisher.publish(std::move(loan), w.stream.get());
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        EXPECT_EQ(sample.tensor().device(), Device::cuda(0));
        const Found found = read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 5U);
        tell(wire);
      },
      {{"CUDA_VISIBLE_DEVICES", "1,0"}});
}

TEST_P(CudaBus, memory_that_cannot_be_shared_is_copied_on_the_device_and_counted) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        standin::DevicePtr foreign = 0;
        EXPECT_OK(standin::cuMemAlloc_v2(&foreign, kWords * 8));
        const std::span words(reinterpret_cast<std::uint64_t*>(foreign), kWords);
        w.stream.pause();
        w.stream.launch([words] { write_pattern(words, 9); });
        TensorView view = TensorView::of(words.data(), {kWords});
        view.device = Device::cuda();
        view.stream = w.stream.get();
        w.publisher.publish(view);
        w.stream.launch([words] { write_pattern(words, 10); });  // after the copy
        w.stream.resume();
        wait_for(wire);
        EXPECT_EQ(w.publisher.stats().bytes_copied, kWords * 8);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 9U);
        tell(wire);
      });
}

TEST_P(CudaBus, views_of_one_tensor_that_is_copied_are_views_of_one_copy) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        const TestStream other;
        standin::DevicePtr foreign = 0;
        EXPECT_OK(standin::cuMemAlloc_v2(&foreign, kWords * 8));
        const std::span words(reinterpret_cast<std::uint64_t*>(foreign), kWords);
        TensorView whole = TensorView::of(words.data(), {kWords});
        whole.device = Device::cuda();
        whole.stream = w.stream.get();
        TensorView backwards = whole;
        backwards.data = words.data() + 4000;
        backwards.layout.shape = {64};
        backwards.layout.strides = {-2};
        backwards.stream = other.get();
        other.pause();  // it writes, too
        other.launch([words] { write_pattern(words, 9); });
        const std::size_t before = standin_calls("cuMemcpyAsync");
        w.publisher.publish({{backwards, whole}});
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), before + 1);
        EXPECT_EQ(w.publisher.stats().bytes_copied, kWords * 8);
        other.resume();
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        const auto tensors = sample.tensors();
        EXPECT_EQ(tensors[0].data() - tensors[1].data(), 4000 * 8);
        const Found found = read_on(r.stream, tensors[1]);
        r.stream.synchronize();
        EXPECT_EQ(*found, 9U);
        tell(wire);
      });
}

TEST_P(CudaBusAhead, a_late_subscriber_waits_for_what_is_still_being_written) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, {.history = 1});
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 4);
        tell(wire);
        wait_for(wire);
        w.stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        wait_for(wire);
        Reader r(domain);
        const bus::Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        tell(wire);
        r.stream.synchronize();
        EXPECT_EQ(*found, 4U);
        tell(wire);
      });
}

}  // namespace
}  // namespace tensorbus
