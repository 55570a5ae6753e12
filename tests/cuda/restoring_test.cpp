// Tensors of a GPU that the receiver cannot use, put onto one that it can.

#include "no_gpu_reader.hpp"
#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus {
namespace {

using namespace testing;

// Writers work on the second device of the machine, which this end does not see; its own is the
// first.
struct Restoring : NoGpuReader {
  explicit Restoring(const FreshDomain& domain, SubscriberOptions options = {})
      : NoGpuReader(domain, on_first(std::move(options))) {}
  static SubscriberOptions on_first(SubscriberOptions options) {
    options.device = Device::cuda(0);
    return options;
  }
  std::size_t used_bytes() const { return us->memory_use(Device::cuda(0)).used_bytes; }

  TestStream stream;
};

class RestoringInEachOrder : public InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Cuda, RestoringInEachOrder, kEachOrder, name_of_order);

TEST_P(RestoringInEachOrder, a_tensor_comes_back_to_a_device_and_leaves_nothing_with_its_owner) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          publish_on(w, 1, seed);
          wait_for(wire);
        }
        EXPECT_TRUE(eventually([&] { return w.used_bytes(1) == 0; }));
        EXPECT_TRUE(eventually([&] { return w.us->memory_use().blocks <= 4; }))
            << "copies that rest";
        tell(wire);
      },
      [&](int wire) {
        Restoring r(domain);
        std::vector<bus::Sample> held;
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          held.push_back(r.next());
          const bus::Tensor& tensor = held.back().tensor();
          EXPECT_EQ(tensor.device(), Device::cuda(0));
          EXPECT_EQ(tensor.published_on(), Device::cuda(1));
          EXPECT_FALSE(tensor.writable());
          const Found found = read_on(r.stream, tensor);
          r.stream.synchronize();
          EXPECT_EQ(*found, seed);
          EXPECT_TRUE(tensor.intact());
          tell(wire);
        }
        EXPECT_EQ(r.subscriber.stats().staged, 20U);
        EXPECT_EQ(r.subscriber.stats().held, 0U) << "of the publisher's memory";
        wait_for(wire);
        held.clear();
        EXPECT_EQ(r.used_bytes(), 0U);
      },
      kOtherDevice);
}

TEST_P(RestoringInEachOrder, nobody_waits_for_the_copy_but_the_streams_that_use_it) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
          publish_on(w, 1, seed);
          wait_for(wire);
        }
      },
      [&](int wire) {
        Restoring r(domain);
        standin_hold_copies(true);
        std::vector<Found> found;
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
          const bus::Sample sample = r.next();
          found.push_back(read_on(r.stream, sample.tensor()));
          std::this_thread::sleep_for(
              std::chrono::milliseconds(5));  // what it holds may go wrongly
          tell(wire);
        }
        EXPECT_FALSE(r.stream.idle());
        standin_hold_copies(false);
        r.stream.synchronize();
        for (std::uint64_t seed = 1; seed <= 12; ++seed) EXPECT_EQ(*found[seed - 1], seed);
      },
      kOtherDevice);
}

TEST(CudaRestoring, what_still_reads_it_keeps_the_memory_of_a_sample_that_went) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          publish_on(w, 1, seed);
          wait_for(wire);
        }
      },
      [&](int wire) {
        Restoring r(domain);
        r.stream.pause();
        std::vector<Found> found;
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          found.push_back(read_on(r.stream, r.next().tensor()));
          tell(wire);
        }
        r.stream.resume();
        r.stream.synchronize();
        for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(*found[seed - 1], seed);
      },
      kOtherDevice);
}

TEST(CudaRestoring, views_of_one_tensor_come_back_as_such_and_host_tensors_stay) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        bus::Loan loan = loan_of(w.publisher, 1);
        write_pattern(words_of(loan), 5);
        TensorView half = loan.view();
        half.layout.shape = {kWords / 2};
        half.data = words_of(loan).data() + 3;
        half.stream = w.stream.get();
        TensorView whole = loan.view();
        whole.stream = w.stream.get();
        const std::array<std::uint64_t, 2> on_host{7, 8};
        w.publisher.publish({{half, TensorView::of(on_host.data(), {2}), whole}});
        wait_for(wire);
      },
      [&](int wire) {
        Restoring r(domain);
        const bus::Sample sample = r.next();
        const auto tensors = sample.tensors();
        const Found found = read_on(r.stream, tensors[2]);
        r.stream.synchronize();
        EXPECT_EQ(*found, 5U);
        EXPECT_EQ(tensors[0].data() - tensors[2].data(), 3 * 8);
        EXPECT_EQ(tensors[1].device(), Device::host());
        EXPECT_EQ(tensors[1].as<std::uint64_t>()[1], 8U);
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), 1U);
        tell(wire);
      },
      kOtherDevice);
}

TEST(CudaRestoring, what_comes_by_reference_stays_where_it_is) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        Restoring r(domain);
        const TestStream stream(1);
        const bus::Sample sample = r.next();
        EXPECT_EQ(sample.tensor().device(), Device::cuda(1));
        const Found found = read_on(stream, sample.tensor());
        stream.synchronize();
        EXPECT_EQ(*found, 5U);
        EXPECT_EQ(r.subscriber.stats().staged, 0U);
        tell(wire);
      });
}

TEST(CudaRestoring, it_is_published_onwards_by_reference_any_number_of_times) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        Restoring r(domain);
        bus::Publisher onwards("onwards", {}, r.us);
        const bus::ParticipantRef other = domain.join();
        bus::Subscriber last("onwards", {}, other);
        EXPECT_EQ(onwards.wait_for_subscribers(1, kLong), Outcome::kDone);
        standin_hold_copies(true);
        {
          const bus::Sample sample = r.next();
          const bus::Tensor& tensor = sample.tensor();
          tensor.use_on(r.stream.get());
          for (int i = 0; i < 2; ++i)
            onwards.publish({{{tensor.data(), tensor.layout(), tensor.device(), r.stream.get()}}});
        }
        EXPECT_EQ(onwards.stats().bytes_copied, 0U);
        standin_hold_copies(false);
        for (int i = 0; i < 2; ++i) {
          const auto sample = last.receive(kLong);
          ASSERT_TRUE(sample);
          const Found found = read_on(r.stream, sample->tensor());
          r.stream.synchronize();
          EXPECT_EQ(*found, 5U);
        }
        EXPECT_TRUE(eventually([&] {
          (void)onwards.stats();
          return r.used_bytes() == 0;
        }));
        tell(wire);
      },
      kOtherDevice);
}

TEST(CudaRestoring, without_room_on_the_device_the_sample_waits) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (const std::uint64_t seed : {5U, 6U}) publish_on(w, 1, seed);
        wait_for(wire);
      },
      [&](int wire) {
        standin_fail("cuMemCreate", 0, 2);
        Restoring r(domain);
        for (int i = 0; i < 3; ++i) try {
            (void)r.subscriber.receive(kLong);
            ADD_FAILURE() << "there was room";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.what();
          }
        standin_fail("cuMemCreate", 0, 0);
        for (const std::uint64_t seed : {5U, 6U}) {
          const bus::Sample sample = r.next();
          const Found found = read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          EXPECT_EQ(*found, seed);
        }
        tell(wire);
      },
      kOtherDevice);
}

TEST(CudaRestoring, a_publisher_that_is_killed_takes_nothing_with_it) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
        Restoring r(domain);
        standin_hold_copies(true);
        const bus::Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return r.subscriber.stats().publishers == 0; }));
        standin_hold_copies(false);
        r.stream.synchronize();
        EXPECT_EQ(*found, 5U);
        EXPECT_TRUE(sample.tensor().intact());
      });
}

TEST(CudaRestoring, a_context_that_breaks_leaves_nothing_intact) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        Restoring r(domain);
        const bus::Sample sample = r.next();
        (void)read_on(r.stream, sample.tensor());
        r.stream.synchronize();  // the stand-in's streams go on, a broken one's do not
        EXPECT_TRUE(sample.tensor().intact());
        const device::GpuStream stream(device::Gpu::at(0));
        EXPECT_THROW(stream.check(standin::Result{700}, "a kernel"), Error);
        EXPECT_FALSE(sample.tensor().intact());
        tell(wire);
      },
      kOtherDevice);
}

TEST(CudaRestoring, what_stays_in_host_memory_is_pinned_if_that_is_asked_for) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        bus::Loan on_host = w.publisher.loan<std::uint64_t>({16 * kWords});
        write_pattern(words_of(on_host), 6);
        w.publisher.publish(std::move(on_host));
        wait_for(wire);
      },
      [&](int wire) {
        Restoring r(domain, {.pin = true});
        const bus::Sample first = r.next();
        const Found found = read_on(r.stream, first.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 5U);
        const std::size_t pinned = standin_calls("cuMemHostRegister_v2");
        const bus::Sample second = r.next();
        EXPECT_EQ(seed_in(second.tensor()), 6U);
        EXPECT_EQ(standin_calls("cuMemHostRegister_v2"), pinned + 1);
        tell(wire);
      },
      kOtherDevice);
}

TEST(CudaRestoring, a_thousand_samples_take_no_more_memory_than_a_few) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
          publish_on(w, 1, seed);
          wait_for(wire);
        }
        EXPECT_TRUE(eventually([&] { return w.us->memory_use().blocks <= 4; }))
            << "copies that rest";
      },
      [&](int wire) {
        Restoring r(domain);
        const std::size_t before = standin_allocated_bytes(0);
        std::size_t most = 0;
        for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
          const bus::Sample sample = r.next();
          const Found found = read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          EXPECT_EQ(*found, seed);
          most = std::max(most, standin_allocated_bytes(0) - before);
          tell(wire);
        }
        EXPECT_EQ(most, std::size_t{64} << 20) << "more than one segment";
        EXPECT_LE(standin_calls("cuStreamCreate"), 10U);
      },
      kOtherDevice);
}

TEST(CudaRestoring, a_device_that_there_is_not_is_refused_at_once) {
  const FreshDomain domain;
  const auto expect_refused = [&](int ordinal) {
    const bus::ParticipantRef us = domain.join();
    try {
      const bus::Subscriber subscriber("frames", {.device = Device::cuda(ordinal)}, us);
      ADD_FAILURE() << "it was made";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("device=cuda:"), std::string::npos) << error.what();
    }
  };
  in_process(kNoDriver, [&] { expect_refused(0); });
  in_process(kOtherDevice, [&] { expect_refused(1); });
  in_process({{"STANDIN_WITHOUT", "vmm"}}, [&] { expect_refused(0); });
}

}  // namespace
}  // namespace tensorbus
