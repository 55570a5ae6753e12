// Access::kShared on a GPU: who receives a tensor writes to it, for all who have it.

#include <chrono>
#include <thread>

#include "ends.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"

namespace tensorbus {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class CudaShared : public InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaShared, kEachOrder, name_of_order);

constexpr PublisherOptions kOpen{.shared = true};

void write(const TestStream& stream, const bus::Tensor& tensor, std::uint64_t seed) {
  tensor.use_on(stream.get());
  auto* const first = reinterpret_cast<std::uint64_t*>(tensor.mutable_data());
  stream.launch([words = std::span(first, kWords), seed] { write_pattern(words, seed); });
}

// The end of a topic that may write to what it receives.
struct Sharer : Reader {
  explicit Sharer(const FreshDomain& domain, const std::string& topic = "frames")
      : Reader(domain, {.access = Access::kShared}, topic) {}
};

// What is written on that stream.
template <typename Memory>
TensorView on(const TestStream& stream, const Memory& memory) {
  return {memory.data(), memory.layout(), memory.device(), stream.get()};
}

std::optional<std::uint64_t> seed_on(const TestStream& stream, const bus::Tensor& tensor) {
  const Found found = read_on(stream, tensor);
  stream.synchronize();
  return *found;
}

TEST_P(CudaShared, a_write_is_seen_by_its_publisher_and_by_who_only_reads) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, kOpen);
        Reader r(domain);  // here, too: another participant of its own process
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        bus::Loan loan = loan_of(w.publisher);
        w.stream.launch([words = words_of(loan)] { write_pattern(words, 1); });
        ASSERT_EQ(w.publisher.publish(on(w.stream, loan)).outcome, Outcome::kDone);
        const bus::Sample read = r.next();
        EXPECT_EQ(seed_on(r.stream, read.tensor()), 1U);
        EXPECT_FALSE(read.tensor().writable());
        tell(wire);
        wait_for(wire);
        EXPECT_EQ(seed_on(r.stream, read.tensor()), 2U);
        EXPECT_EQ(seed_of(std::span<const std::uint64_t>(words_of(loan))), 2U);
        EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
        tell(wire);
      },
      [&](int wire) {
        Sharer s(domain);
        const bus::Sample sample = s.next();
        EXPECT_TRUE(sample.tensor().writable());
        wait_for(wire);
        write(s.stream, sample.tensor(), 2);
        s.stream.synchronize();
        tell(wire);
        wait_for(wire);
      });
}

TEST_P(CudaShared, memory_is_not_used_again_before_who_wrote_it_has_passed) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, kOpen);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 1);
        wait_for(wire);  // it has let go, and its kernel has not run
        EXPECT_NE(w.used_bytes(), 0U);
        tell(wire);
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; }));
        tell(wire);
      },
      [&](int wire) {
        Sharer s(domain);
        {
          const bus::Sample sample = s.next();
          s.stream.pause();
          write(s.stream, sample.tensor(), 2);
        }
        tell(wire);
        wait_for(wire);
        s.stream.resume();
        wait_for(wire);
      });
}

TEST_P(CudaShared, what_is_not_in_memory_for_it_is_copied_there) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, kOpen);
        w.wait_for_reader();
        bus::Publisher closed("others", {}, w.us);
        bus::Loan mine = loan_of(closed);  // only read by others
        w.stream.launch([words = words_of(mine)] { write_pattern(words, 1); });
        EXPECT_EQ(code_of([&] { w.publisher.publish(on(w.stream, mine)); }),
                  Code::kInvalidArgument);
        bus::Loan own =
            empty(Layout::contiguous(DType::kUInt64, {kWords}), false, w.us, Device::cuda());
        w.stream.launch([words = words_of(own)] { write_pattern(words, 1); });
        ASSERT_EQ(w.publisher.publish(on(w.stream, own)).outcome, Outcome::kDone);
        EXPECT_EQ(w.publisher.stats().bytes_copied, kWords * 8);
        wait_for(wire);
        EXPECT_EQ(seed_of(std::span<const std::uint64_t>(words_of(own))), 1U);
      },
      [&](int wire) {
        Sharer s(domain);
        const bus::Sample sample = s.next();
        EXPECT_EQ(seed_on(s.stream, sample.tensor()), 1U);
        write(s.stream, sample.tensor(), 2);
        EXPECT_EQ(seed_on(s.stream, sample.tensor()), 2U);
        tell(wire);
      });
}

// The next reader asks the owner, who knows nothing of the streams of who wrote it.
TEST_P(CudaShared, what_was_written_is_handed_on_when_it_is) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, kOpen);
        Sharer onwards(domain, "onwards");
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 1);
        const bus::Sample back = onwards.next();
        EXPECT_TRUE(back.tensor().writable());
        EXPECT_EQ(seed_on(onwards.stream, back.tensor()), 2U);
        EXPECT_EQ(w.us->memory_use(Device::cuda()).segments, 1U);
        tell(wire);
      },
      [&](int wire) {
        Sharer s(domain);
        bus::Publisher onwards("onwards", kOpen, s.us);
        EXPECT_EQ(onwards.wait_for_subscribers(1, kLong), Outcome::kDone);
        const bus::Sample sample = s.next();
        s.stream.launch([] { std::this_thread::sleep_for(50ms); });  // what a kernel may take
        write(s.stream, sample.tensor(), 2);
        ASSERT_EQ(onwards.publish(on(s.stream, sample.tensor())).outcome, Outcome::kDone);
        EXPECT_EQ(onwards.stats().bytes_copied, 0U);
        wait_for(wire);
      });
}

TEST_P(CudaShared, memory_of_a_process_is_shared_to_be_written) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        const TestStream stream;
        const bus::Loan own =
            empty(Layout::contiguous(DType::kUInt64, {kWords}), true, us, Device::cuda());
        EXPECT_TRUE(is_shared(own.data(), kWords * 8, us));
        stream.launch([words = words_of(own)] { write_pattern(words, 1); });
        bus::Queue queue({.shared = true, .name = "items"}, us);
        EXPECT_EQ(queue.put({.tensors = {on(stream, own)}}, kLong), Outcome::kDone);
        wait_for(wire);
        EXPECT_EQ(seed_of(std::span<const std::uint64_t>(words_of(own))), 2U);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        bus::Queue queue = bus::Queue::open("items", kLong, us);
        bus::Sample item;
        ASSERT_EQ(queue.get(item, kLong), Outcome::kDone);
        const TestStream stream;
        EXPECT_EQ(seed_on(stream, item.tensor()), 1U);
        write(stream, item.tensor(), 2);
        stream.synchronize();
        tell(wire);
      });
}

TEST_P(CudaShared, who_cannot_use_the_device_is_told) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, kOpen);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 1);
        wait_for(wire);
      },
      [&](int wire) {
        bus::Subscriber subscriber("frames", {.access = Access::kShared}, domain.join());
        EXPECT_EQ(code_of([&] { (void)subscriber.receive(kLong); }), Code::kUnsupported);
        EXPECT_EQ(subscriber.stats().staged, 0U);
        tell(wire);
      },
      {{"CUDA_VISIBLE_DEVICES", ""}});
}

}  // namespace
}  // namespace tensorbus
