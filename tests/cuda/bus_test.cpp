// Tensors of a GPU from process to process, over the stand-in for the driver: its memory is the
// host's, its kernels are code of this file, and its streams can be stopped.

#include "process.hpp"
#include "tensorbus/bus/test_support.hpp"
#include "tensorbus/platform/cuda_device.hpp"

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
  bool idle() const {
    const Current current(session_);
    return standin::cuStreamQuery(stream_) == standin::Result::kSuccess;
  }
  void synchronize() const {
    const Current current(session_);
    EXPECT_OK(standin::cuStreamSynchronize(stream_));
  }
  template <typename Kernel>
  void launch(Kernel kernel) const {
    const Current current(session_);
    standin_launch(
        stream_,
        [](void* argument) {
          const std::unique_ptr<Kernel> mine(static_cast<Kernel*>(argument));
          (*mine)();
        },
        new Kernel(std::move(kernel)));
  }

 private:
  // With several devices the last session's context would be current.
  struct Current {
    explicit Current(const standin::test::Session& session) {
      EXPECT_OK(standin::cuCtxPushCurrent_v2(session.context()));
    }
    ~Current() { EXPECT_OK(standin::cuCtxPopCurrent_v2(nullptr)); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
  };

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

// One end of a topic, and a stream to work on.
struct Writer {
  explicit Writer(const FreshDomain& domain, int device = 0, PublisherOptions options = {})
      : us(domain.join()), publisher("frames", options, us), stream(device) {}
  void wait_for_reader() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }
  // Of memory on the device that somebody still needs, as far as is known now.
  std::size_t used_bytes(int device = 0) const {
    (void)publisher.stats();
    return us.arena(Device::cuda(device)).used_bytes;
  }

  Participant us;
  Publisher publisher;
  TestStream stream;
};
struct Reader {
  explicit Reader(const FreshDomain& domain) : us(domain.join()), subscriber("frames", {}, us) {}
  Sample next() {
    auto sample = subscriber.receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : Sample();
  }

  Participant us;
  Subscriber subscriber;
  TestStream stream;
};

// Both processes of a test are told apart by a word on the wire.
void tell(int wire) { standin::test::send(wire, 'x'); }
void wait_for(int wire) { EXPECT_EQ(standin::test::receive<char>(wire), 'x'); }

TEST(CudaBus, a_loan_is_filled_and_read_by_kernels_and_copied_by_nobody) {
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
        EXPECT_EQ(w.us.arena(Device::cuda()).segments, 1U);
        EXPECT_EQ(w.us.arena().segments, 0U);
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const Sample sample = r.next();
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

TEST(CudaBus, a_tensor_arrives_before_it_is_written_and_is_read_afterwards) {
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
        const Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        EXPECT_FALSE(r.stream.idle());
        tell(wire);
        r.stream.synchronize();
        EXPECT_EQ(*found, 7U);
        tell(wire);
      });
}

TEST(CudaBus, memory_is_used_again_when_the_readers_stream_has_passed) {
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
          const Sample sample = r.next();
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
    Writer w(domain);
    w.wait_for_reader();
    publish_filled(w.publisher, w.stream, 1);
    w.stream.synchronize();
    w.stream.pause();
    publish_filled(w.publisher, w.stream, 2);
    publish_filled(w.publisher, w.stream, 3);
    wait_for(ends[0]);
    ::raise(SIGKILL);
  });
  in_process([&] {
    Reader r(domain);
    const Sample whole = r.next();
    const Sample half = r.next();
    const Found found = read_on(r.stream, whole.tensor());
    (void)read_on(r.stream, half.tensor());
    tell(ends[1]);
    EXPECT_TRUE(eventually([&] { return !half.tensor().intact(); }));
    r.stream.synchronize();
    EXPECT_EQ(*found, 1U);
    EXPECT_TRUE(whole.tensor().intact());
    EXPECT_FALSE(r.subscriber.try_receive()) << "the third was never written";
    EXPECT_EQ(r.subscriber.stats().gone, 1U);
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
    Reader r(domain);
    auto sample = r.subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    r.stream.pause();
    (void)read_on(r.stream, sample->tensor());
    sample.reset();
    tell(ends[0]);
    ::pause();
  });
  in_process([&] {
    Writer w(domain);
    w.wait_for_reader();
    publish_filled(w.publisher, w.stream, 1);
    w.stream.synchronize();
    wait_for(ends[1]);
    EXPECT_NE(w.used_bytes(), 0U);
    ::kill(borrower.pid(), SIGKILL);
    EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
  });
  EXPECT_EQ(borrower.wait(), "signal 9");
  ::close(ends[0]);
  ::close(ends[1]);
}

// Lets go of all that it has, one after the other, with its kernel still to run.
void leave_while_reading(const FreshDomain& domain, int wire, bool whole_participant) {
  const TestStream stream;
  Found found;
  std::optional<Participant> us = domain.join();
  std::optional<Subscriber> subscriber(std::in_place, "frames", SubscriberOptions{}, *us);
  {
    const auto sample = subscriber->receive(kLong);
    ASSERT_TRUE(sample);
    stream.pause();
    found = read_on(stream, sample->tensor());
  }
  subscriber.reset();
  if (whole_participant) us.reset();
  tell(wire);
  wait_for(wire);
  stream.resume();
  stream.synchronize();
  EXPECT_EQ(*found, 3U);
  tell(wire);
  wait_for(wire);
}

class WhoLeaves : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(CudaBus, WhoLeaves, ::testing::Bool());

TEST_P(WhoLeaves, while_its_stream_reads_finds_what_was_published) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 3);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return w.publisher.subscribers() == 0; }));
        for (std::uint64_t seed = 100; seed < 105; ++seed)
          publish_filled(w.publisher, w.stream, seed);
        w.stream.synchronize();
        EXPECT_NE(w.used_bytes(), 0U);
        tell(wire);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
        tell(wire);
      },
      [&](int wire) { leave_while_reading(domain, wire, GetParam()); });
}

TEST_P(WhoLeaves, while_its_stream_waits_is_let_go_on_when_the_publisher_dies) {
  const FreshDomain domain;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  auto owner = start_process({}, [&] {
    Writer w(domain);
    w.wait_for_reader();
    w.stream.pause();
    publish_filled(w.publisher, w.stream, 1);
    wait_for(ends[0]);
    ::raise(SIGKILL);
  });
  in_process([&] {
    const TestStream stream;
    std::optional<Participant> us = domain.join();
    std::optional<Subscriber> subscriber(std::in_place, "frames", SubscriberOptions{}, *us);
    auto sample = subscriber->receive(kLong);
    ASSERT_TRUE(sample);
    (void)read_on(stream, sample->tensor());
    sample.reset();
    subscriber.reset();
    if (GetParam()) us.reset();
    EXPECT_FALSE(stream.idle());
    tell(ends[1]);
    stream.synchronize();
  });
  EXPECT_EQ(owner.wait(), "signal 9");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(CudaBus, a_publisher_that_leaves_has_its_kernels_write_to_the_end) {
  const FreshDomain domain;
  in_process([&] {
    const TestStream stream;
    stream.pause();
    {
      Publisher publisher("frames", {}, domain.join());
      publish_filled(publisher, stream, 1);
    }
    stream.resume();
    stream.synchronize();
    EXPECT_TRUE(eventually([] { return standin_open_mappings() == 0; }));
  });
}

TEST(CudaBus, what_is_let_go_during_a_capture_comes_back_after_it) {
  const FreshDomain domain;
  in_process([&] {
    const Participant us = domain.join();
    Publisher publisher("frames", {}, us);
    Subscriber subscriber("frames", {}, us);
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
      return us.arena(Device::cuda()).used_bytes;
    };
    TensorView view = TensorView::of(reinterpret_cast<const std::uint64_t*>(where), {kWords});
    view.device = Device::cuda();
    publisher.publish(view);  // nobody looks at the lease that is gone
    EXPECT_NE(used(), 0U);
    standin_capture(stream.get(), false);
    while (subscriber.try_receive()) {
    }
    EXPECT_TRUE(eventually([&] { return used() == 0; }));
  });
}

TEST(CudaBus, a_copy_for_a_message_that_came_to_nothing_ends_before_its_memory_is_used) {
  const FreshDomain domain;
  in_process([&] {
    const TestStream slow;
    Publisher publisher("frames", {}, domain.join({.cuda_budget_bytes = std::size_t{8} << 20}));
    standin::DevicePtr foreign = 0;
    EXPECT_OK(standin::cuMemAlloc_v2(&foreign, 16 << 20));
    const auto* words = reinterpret_cast<const std::uint64_t*>(foreign);
    std::vector<TensorView> views{TensorView::of(words, {kWords}),
                                  TensorView::of(words, {(16 << 20) / 8})};
    for (TensorView& view : views) {
      view.device = Device::cuda();
      view.stream = slow.get();
    }
    const std::byte* const first = loan_of(publisher).data();
    slow.pause();
    EXPECT_EQ(code_of([&] { publisher.publish(Value(), views); }), Code::kOutOfMemory);
    const Loan next = loan_of(publisher);
    EXPECT_NE(next.data(), first) << "where the copy is still to go";
    slow.resume();
    slow.synchronize();
  });
}

TEST(CudaBus, tensors_of_two_devices_are_whole_together) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        const TestStream other(1);
        w.wait_for_reader();
        standin::DevicePtr foreign = 0;
        EXPECT_OK(standin::cuMemAlloc_v2(&foreign, kWords * 8));
        const std::span words(reinterpret_cast<std::uint64_t*>(foreign), kWords);
        Loan loan = loan_of(w.publisher);
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
        const Sample sample = r.next();
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

TEST(CudaBus, the_default_stream_of_a_thread_is_refused) {
  const FreshDomain domain;
  in_process([&] {
    Publisher publisher("frames", {}, domain.join());
    const TestStream stream;
    EXPECT_EQ(code_of([&] {
                publisher.publish(loan_of(publisher), reinterpret_cast<void*>(std::uintptr_t{2}));
              }),
              Code::kUnsupported);
  });
}

TEST(CudaBus, ordinals_are_each_processes_own) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        Loan loan = loan_of(w.publisher, 1);
        w.stream.launch([words = words_of(loan)] { write_pattern(words, 5); });
        w.publisher.publish(std::move(loan), w.stream.get());
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        const Sample sample = r.next();
        EXPECT_EQ(sample.tensor().device(), Device::cuda(0));
        const Found found = read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 5U);
        tell(wire);
      },
      {{"CUDA_VISIBLE_DEVICES", "1,0"}});
}

TEST(CudaBus, who_does_not_see_the_device_is_told_so) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        w.publisher.publish(loan_of(w.publisher, 1), w.stream.get());
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return w.used_bytes(1) == 0; }));
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
        const Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 9U);
        tell(wire);
      });
}

TEST(CudaBus, a_late_subscriber_waits_for_what_is_still_being_written) {
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
        const Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        tell(wire);
        r.stream.synchronize();
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

TEST(CudaBus, a_capture_in_a_program_keeps_nobody_else_in_it_from_memory) {
  const FreshDomain domain;
  in_process([&] {
    const Participant us = domain.join();
    Publisher publisher("frames", {}, us);
    Subscriber subscriber("frames", {}, us);
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
    in_process(
        [&] { EXPECT_EQ(code_of([&] { (void)platform::CudaDevice::at(0); }), Code::kForked); });
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
