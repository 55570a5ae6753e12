// Tensors of a GPU from process to process, over the stand-in for the driver: its memory is the
// host's, its kernels are code of this file, and its streams can be stopped.

#include "process.hpp"
#include "tensorbus/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace testing;
using standin::Stream;
using standin::test::Environment;
using standin::test::in_process;
using standin::test::in_two_processes;
using standin::test::start_process;

constexpr std::size_t kWords = 4096;

// A stream of a device, in the context that Tensorbus uses, too.
class TestStream {
 public:
  explicit TestStream(int device = 0) : session_(device), stream_(standin::test::new_stream()) {}

  Stream get() const { return stream_; }
  void pause() const { standin_pause(stream_); }
  void resume() const { standin_resume(stream_); }
  bool idle() const { return standin::cuStreamQuery(stream_) == standin::Result::kSuccess; }
  void synchronize() const { EXPECT_OK(standin::cuStreamSynchronize(stream_)); }
  template <typename Kernel>
  void launch(Kernel kernel) const {
    standin_launch(
        stream_,
        [](void* argument) {
          const std::unique_ptr<Kernel> mine(static_cast<Kernel*>(argument));
          (*mine)();
        },
        new Kernel(std::move(kernel)));
  }

 private:
  standin::test::Session session_;
  Stream stream_;
};

std::span<std::uint64_t> words_of(const Loan& loan) {
  return {reinterpret_cast<std::uint64_t*>(loan.data()), loan.layout().elements()};
}
std::span<const std::uint64_t> words_of(const Tensor& tensor) {
  return {reinterpret_cast<const std::uint64_t*>(tensor.data()), tensor.layout().elements()};
}

Loan loan_of(Publisher& publisher, int device = 0) {
  return publisher.loan<std::uint64_t>({kWords}, Device::cuda(device));
}

void publish_filled(Publisher& publisher, const TestStream& stream, std::uint64_t seed) {
  Loan loan = loan_of(publisher);
  stream.launch([words = words_of(loan), seed] { write_pattern(words, seed); });
  ASSERT_EQ(publisher.publish(std::move(loan), stream.get()).outcome, Outcome::kDone);
}

// What a kernel finds in a tensor: the seed of its pattern.
using Found = std::shared_ptr<std::optional<std::uint64_t>>;
Found read_on(const TestStream& stream, const Tensor& tensor) {
  auto found = std::make_shared<std::optional<std::uint64_t>>();
  tensor.use_on(stream.get());
  stream.launch([words = words_of(tensor), found] { *found = seed_of(words); });
  return found;
}

// Both processes of a test are told apart by a word on the wire.
void tell(int wire) { standin::test::send(wire, 'x'); }
void wait_for(int wire) { EXPECT_EQ(standin::test::receive<char>(wire), 'x'); }

TEST(CudaBus, a_loan_is_filled_and_read_by_kernels_and_copied_by_nobody) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {}, us);
        const TestStream stream;
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          publish_filled(publisher, stream, seed);
          wait_for(wire);
        }
        EXPECT_EQ(publisher.stats().bytes_copied, 0U);
        EXPECT_EQ(us.arena(Device::cuda()).segments, 1U);
        EXPECT_EQ(us.arena().segments, 0U);
        tell(wire);
      },
      [&](int wire) {
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        const TestStream stream;
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const auto sample = subscriber.receive(kLong);
          ASSERT_TRUE(sample);
          EXPECT_EQ(sample->tensor().device(), Device::cuda(0));
          const Found found = read_on(stream, sample->tensor());
          stream.synchronize();
          EXPECT_EQ(*found, seed);
          EXPECT_TRUE(sample->tensor().intact());
          tell(wire);
        }
        wait_for(wire);
      });
}

TEST(CudaBus, a_tensor_arrives_before_it_is_written_and_is_read_afterwards) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {}, us);
        const TestStream stream;
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        stream.pause();
        publish_filled(publisher, stream, 7);
        wait_for(wire);
        stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        const TestStream stream;
        const auto sample = subscriber.receive(kLong);
        ASSERT_TRUE(sample);
        const Found found = read_on(stream, sample->tensor());
        EXPECT_FALSE(stream.idle());
        EXPECT_FALSE(found->has_value());
        tell(wire);
        stream.synchronize();
        EXPECT_EQ(*found, 7U);
        tell(wire);
      });
}

TEST(CudaBus, memory_is_used_again_when_the_readers_stream_has_passed) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {}, us);
        const TestStream stream;
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        publish_filled(publisher, stream, 3);
        wait_for(wire);  // it has let go, and its kernel has not run
        stream.synchronize();
        const auto used = [&] {
          (void)publisher.stats();
          return us.arena(Device::cuda()).used_bytes;
        };
        EXPECT_NE(used(), 0U);
        for (std::uint64_t seed = 100; seed < 105; ++seed) publish_filled(publisher, stream, seed);
        EXPECT_NE(used(), 0U);
        stream.synchronize();
        tell(wire);
        wait_for(wire);  // its kernel has run
        EXPECT_TRUE(eventually([&] { return used() == 0; }));
        tell(wire);
      },
      [&](int wire) {
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        const TestStream stream;
        Found found;
        {
          const auto sample = subscriber.receive(kLong);
          ASSERT_TRUE(sample);
          stream.pause();
          found = read_on(stream, sample->tensor());
        }
        tell(wire);
        wait_for(wire);
        while (subscriber.try_receive()) {  // unread
        }
        stream.resume();
        stream.synchronize();
        EXPECT_EQ(*found, 3U);
        tell(wire);
        wait_for(wire);
      });
}

TEST(CudaBus, what_nobody_took_is_used_again_when_its_writer_has_passed) {
  const FreshDomain domain;
  in_process([&] {
    Publisher publisher("frames", {}, domain.join());
    const TestStream slow;
    slow.pause();
    publish_filled(publisher, slow, 1);
    const Loan first = loan_of(publisher);
    const Loan second = loan_of(publisher);
    slow.resume();
    slow.synchronize();
    const Loan third = loan_of(publisher);
    EXPECT_EQ(first.data() + kWords * 8, second.data());
    EXPECT_EQ(third.data() + kWords * 8, first.data()) << "where the published one was";
  });
}

TEST(CudaBus, who_waits_for_a_dead_publisher_goes_on_and_is_told) {
  const FreshDomain domain;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  auto owner = start_process({}, [&] {
    const Participant us = domain.join();
    Publisher publisher("frames", {}, us);
    const TestStream stream;
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_filled(publisher, stream, 1);
    stream.synchronize();
    stream.pause();
    publish_filled(publisher, stream, 2);
    publish_filled(publisher, stream, 3);
    wait_for(ends[0]);
    ::raise(SIGKILL);
  });
  in_process([&] {
    const Participant us = domain.join();
    Subscriber subscriber("frames", {}, us);
    const TestStream stream;
    const auto whole = subscriber.receive(kLong);
    const auto half = subscriber.receive(kLong);
    ASSERT_TRUE(whole && half);
    const Found found = read_on(stream, whole->tensor());
    (void)read_on(stream, half->tensor());
    tell(ends[1]);
    EXPECT_TRUE(eventually([&] { return !half->tensor().intact(); }));
    stream.synchronize();
    EXPECT_EQ(*found, 1U);
    EXPECT_TRUE(whole->tensor().intact());
    EXPECT_FALSE(subscriber.try_receive()) << "the third was never written";
    EXPECT_EQ(subscriber.stats().gone, 1U);
  });
  EXPECT_EQ(owner.wait(), "signal 9");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(CudaBus, a_dead_subscribers_leases_come_back_whatever_its_streams_do) {
  const FreshDomain domain;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  auto borrower = start_process({}, [&] {
    const Participant us = domain.join();
    Subscriber subscriber("frames", {}, us);
    const TestStream stream;
    auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    stream.pause();
    (void)read_on(stream, sample->tensor());
    sample.reset();
    tell(ends[0]);
    ::pause();
  });
  in_process([&] {
    const Participant us = domain.join();
    Publisher publisher("frames", {}, us);
    const TestStream stream;
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_filled(publisher, stream, 1);
    stream.synchronize();
    wait_for(ends[1]);
    const auto used = [&] {
      (void)publisher.stats();
      return us.arena(Device::cuda()).used_bytes;
    };
    EXPECT_NE(used(), 0U);
    ::kill(borrower.pid(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return used() == 0; }));
  });
  EXPECT_EQ(borrower.wait(), "signal 9");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(CudaBus, ordinals_are_each_processes_own) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {}, us);
        const TestStream stream(1);
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        Loan loan = loan_of(publisher, 1);
        stream.launch([words = words_of(loan)] { write_pattern(words, 5); });
        publisher.publish(std::move(loan), stream.get());
        wait_for(wire);
      },
      [&](int wire) {
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        const TestStream stream(0);
        const auto sample = subscriber.receive(kLong);
        ASSERT_TRUE(sample);
        EXPECT_EQ(sample->tensor().device(), Device::cuda(0));
        const Found found = read_on(stream, sample->tensor());
        stream.synchronize();
        EXPECT_EQ(*found, 5U);
        tell(wire);
      },
      {{"CUDA_VISIBLE_DEVICES", "1,0"}});
}

TEST(CudaBus, who_does_not_see_the_device_is_told_so) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {}, us);
        const TestStream stream(1);
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        publisher.publish(loan_of(publisher, 1), stream.get());
        wait_for(wire);
        EXPECT_TRUE(eventually([&] {
          (void)publisher.stats();
          return us.arena(Device::cuda(1)).used_bytes == 0;
        }));
      },
      [&](int wire) {
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        EXPECT_EQ(code_of([&] { (void)subscriber.receive(kLong); }), Code::kUnsupported);
        tell(wire);
      },
      {{"CUDA_VISIBLE_DEVICES", "0"}});
}

TEST(CudaBus, memory_that_cannot_be_shared_is_copied_on_the_device_and_counted) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {}, us);
        const TestStream stream;
        ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
        standin::DevicePtr foreign = 0;
        EXPECT_OK(standin::cuMemAlloc_v2(&foreign, kWords * 8));
        const std::span words(reinterpret_cast<std::uint64_t*>(foreign), kWords);
        stream.pause();
        stream.launch([words] { write_pattern(words, 9); });
        TensorView view = TensorView::of(words.data(), {kWords});
        view.device = Device::cuda();
        view.stream = stream.get();
        publisher.publish(view);
        stream.launch([words] { write_pattern(words, 10); });  // after the copy
        stream.resume();
        wait_for(wire);
        EXPECT_EQ(publisher.stats().bytes_copied, kWords * 8);
      },
      [&](int wire) {
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        const TestStream stream;
        const auto sample = subscriber.receive(kLong);
        ASSERT_TRUE(sample);
        const Found found = read_on(stream, sample->tensor());
        stream.synchronize();
        EXPECT_EQ(*found, 9U);
        tell(wire);
      });
}

TEST(CudaBus, a_late_subscriber_waits_for_what_is_still_being_written) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        Publisher publisher("frames", {.history = 1}, us);
        const TestStream stream;
        stream.pause();
        publish_filled(publisher, stream, 4);
        tell(wire);
        wait_for(wire);
        stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        wait_for(wire);
        const Participant us = domain.join();
        Subscriber subscriber("frames", {}, us);
        const TestStream stream;
        const auto sample = subscriber.receive(kLong);
        ASSERT_TRUE(sample);
        const Found found = read_on(stream, sample->tensor());
        tell(wire);
        stream.synchronize();
        EXPECT_EQ(*found, 4U);
        tell(wire);
      });
}

TEST(CudaBus, what_is_captured_into_a_graph_is_refused) {
  const FreshDomain domain;
  in_process([&] {
    const Participant us = domain.join();
    Publisher publisher("frames", {}, us);
    Subscriber subscriber("frames", {}, us);
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
    EXPECT_EQ(code_of([&] { sample->tensor().use_on(captured.get()); }), Code::kUnsupported);
    stream.resume();
    stream.synchronize();
  });
}

TEST(CudaBus, without_a_driver_a_loan_says_why) {
  const FreshDomain domain;
  in_process({{"TENSORBUS_CUDA_DRIVER", "off"}}, [&] {
    Publisher publisher("frames", {}, domain.join());
    EXPECT_EQ(code_of([&] { (void)loan_of(publisher); }), Code::kUnsupported);
  });
  in_process({{"STANDIN_DEVICES", "0"}}, [&] {
    Publisher publisher("frames", {}, domain.join());
    EXPECT_EQ(code_of([&] { (void)loan_of(publisher); }), Code::kUnsupported);
  });
}

TEST(CudaBus, a_child_of_a_process_that_used_cuda_is_told_to_be_spawned) {
  const FreshDomain domain;
  in_process([&] {
    Publisher publisher("frames", {}, domain.join());
    (void)loan_of(publisher);
    in_process([&] {
      Publisher ours("others", {}, domain.join());
      EXPECT_EQ(code_of([&] { (void)loan_of(ours); }), Code::kForked);
    });
  });
}

TEST(CudaBus, more_than_the_budget_of_a_device_is_refused_by_its_name) {
  const FreshDomain domain;
  in_process([&] {
    Publisher publisher("frames", {}, domain.join({.cuda_budget_bytes = std::size_t{8} << 20}));
    const Loan most = publisher.loan<std::uint8_t>({7 << 20}, Device::cuda());
    try {
      (void)publisher.loan<std::uint8_t>({7 << 20}, Device::cuda());
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find("TENSORBUS_CUDA_BUDGET"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace tensorbus
