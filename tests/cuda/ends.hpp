#pragma once

// Both ends of a topic whose tensors lie on a GPU, over the stand-in for the driver: its memory is
// the host's, its kernels are code of the tests, and its streams can be stopped.

#include "process.hpp"
#include "tensorbus/device/gpu.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::testing {

using standin::Stream;
using standin::test::Environment;
using standin::test::in_process;
using standin::test::in_two_processes;
using standin::test::start_process;

inline constexpr std::size_t kWords = 4096;

// Each of the ways in which streams of two processes are ordered: see device/cuda/order/order.hpp.
class InEachOrder : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ::setenv("TENSORBUS_CUDA_ORDER", GetParam(), 1);
    if (GetParam() != std::string_view("streams")) ::setenv("STANDIN_WITHOUT", "mem_ops", 1);
  }
  void TearDown() override {
    ::unsetenv("TENSORBUS_CUDA_ORDER");
    ::unsetenv("STANDIN_WITHOUT");
  }
};
inline const auto kEachOrder = ::testing::Values("streams", "host");
// Those in which a tensor is given to a stream before it is written, and nobody waits.
inline const auto kOrderAhead = ::testing::Values("streams");
inline std::string name_of_order(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

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

inline std::span<std::uint64_t> words_of(const bus::Loan& loan) {
  return {reinterpret_cast<std::uint64_t*>(loan.data()), loan.layout().elements()};
}
inline std::span<const std::uint64_t> words_of(const bus::Tensor& tensor) {
  return {reinterpret_cast<const std::uint64_t*>(tensor.data()), tensor.layout().elements()};
}

inline bus::Loan loan_of(bus::Publisher& publisher, int device = 0) {
  return publisher.loan<std::uint64_t>({kWords}, Device::cuda(device));
}

inline void publish_filled(bus::Publisher& publisher, const TestStream& stream,
                           std::uint64_t seed) {
  bus::Loan loan = loan_of(publisher);
  stream.launch([words = words_of(loan), seed] { write_pattern(words, seed); });
  ASSERT_EQ(publisher.publish(std::move(loan), stream.get()).outcome, Outcome::kDone);
}

// What a kernel finds in a tensor: the seed of its pattern.
using Found = std::shared_ptr<std::optional<std::uint64_t>>;
inline Found read_on(const TestStream& stream, const bus::Tensor& tensor) {
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
    return us->memory_use(Device::cuda(device)).used_bytes;
  }

  bus::ParticipantRef us;
  bus::Publisher publisher;
  TestStream stream;
};
struct Reader {
  explicit Reader(const FreshDomain& domain, const SubscriberOptions& options = {},
                  const std::string& topic = "frames")
      : us(domain.join()), subscriber(topic, options, us) {}
  bus::Sample next() {
    auto sample = subscriber.receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : bus::Sample();
  }

  bus::ParticipantRef us;
  bus::Subscriber subscriber;
  TestStream stream;
};

// Both processes of a test are told apart by a word on the wire.
inline void tell(int wire) { standin::test::send(wire, 'x'); }
inline void wait_for(int wire) { EXPECT_EQ(standin::test::receive<char>(wire), 'x'); }

// Two processes, of which the first is to be killed in the end, by itself.
template <typename First, typename Second>
void while_the_first_is_killed(First&& first, Second&& second) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  auto victim = start_process({}, [&] { first(ends[0]); });
  in_process([&] { second(ends[1]); });
  EXPECT_EQ(victim.wait(), "signal 9");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace tensorbus::testing
