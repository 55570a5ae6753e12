// Tensors of a GPU that are received, or copied, into memory of one's own there.

#include "ends.hpp"
#include "tensorbus/bus/share.hpp"

namespace tensorbus {
namespace {

using namespace testing;

struct PrivateReader : Reader {
  explicit PrivateReader(const FreshDomain& domain)
      : Reader(domain), own("frames", {.access = Access::kPrivate}, us) {}
  bus::Sample next_own() {
    auto sample = own.receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : bus::Sample();
  }
  std::size_t used_bytes() const { return us->memory_use(Device::cuda(0)).used_bytes; }

  bus::Subscriber own;
};

std::span<std::uint64_t> own_words_of(const bus::Tensor& tensor) {
  return {reinterpret_cast<std::uint64_t*>(tensor.mutable_data()), tensor.layout().elements()};
}

class PrivateCopies : public InEachOrder {};
class PrivateCopiesAhead : public InEachOrder {};
INSTANTIATE_TEST_SUITE_P(Cuda, PrivateCopies, kEachOrder, name_of_order);
INSTANTIATE_TEST_SUITE_P(Cuda, PrivateCopiesAhead, kOrderAhead, name_of_order);

TEST_P(PrivateCopies, are_written_to_and_nobody_else_sees_that) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        publish_filled(w.publisher, w.stream, 5);
        wait_for(wire);
      },
      [&](int wire) {
        PrivateReader r(domain);
        const bus::Sample mine = r.next_own();
        const bus::Tensor& tensor = mine.tensor();
        EXPECT_TRUE(tensor.writable());
        EXPECT_EQ(tensor.device(), Device::cuda(0));
        tensor.use_on(r.stream.get());
        r.stream.launch([words = own_words_of(tensor)] {
          EXPECT_EQ(seed_of(words), 5U);
          write_pattern(words, 99);
        });
        r.stream.synchronize();
        const bus::Sample theirs = r.next();
        const Found found = read_on(r.stream, theirs.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 5U);
        tell(wire);
      });
}

TEST_P(PrivateCopiesAhead, are_made_between_the_writers_stream_and_the_readers) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 5);
        wait_for(wire);
        w.stream.resume();
        EXPECT_TRUE(eventually([&] { return w.used_bytes() == 0; })) << "while they hold copies";
        tell(wire);
      },
      [&](int wire) {
        PrivateReader r(domain);
        (void)r.next();
        const bus::Sample mine = r.next_own();
        const bus::Sample again = mine.copy();
        const Found first = read_on(r.stream, mine.tensor());
        const Found second = read_on(r.stream, again.tensor());
        EXPECT_FALSE(r.stream.idle());
        tell(wire);
        wait_for(wire);
        r.stream.synchronize();
        EXPECT_EQ(*first, 5U);
        EXPECT_EQ(*second, 5U);
        EXPECT_TRUE(mine.tensor().intact() && again.tensor().intact());
      });
}

TEST(CudaPrivateCopies, of_views_of_one_tensor_are_views_of_one_copy) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        bus::Loan loan = loan_of(w.publisher);
        write_pattern(words_of(loan), 5);
        TensorView backwards = loan.view();
        backwards.data = words_of(loan).data() + 4000;
        backwards.layout.shape = {64};
        backwards.layout.strides = {-2};
        backwards.stream = w.stream.get();
        TensorView whole = loan.view();
        whole.stream = w.stream.get();
        w.publisher.publish({{backwards, whole}});
        wait_for(wire);
      },
      [&](int wire) {
        PrivateReader r(domain);
        const bus::Sample mine = r.next_own();
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), 1U);
        const bus::Sample copy = mine.copy();
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), 2U);
        for (const bus::Sample* sample : {&mine, &copy}) {
          const auto tensors = sample->tensors();
          EXPECT_EQ(tensors[0].data() - tensors[1].data(), 4000 * 8);
          const Found found = read_on(r.stream, tensors[1]);
          r.stream.synchronize();
          EXPECT_EQ(*found, 5U);
        }
        tell(wire);
      });
}

TEST(CudaPrivateCopies, go_onwards_by_reference) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        publish_filled(w.publisher, w.stream, 5);
        wait_for(wire);
      },
      [&](int wire) {
        PrivateReader r(domain);
        bus::Publisher onwards("onwards", {}, r.us);
        const bus::ParticipantRef other = domain.join();
        bus::Subscriber last("onwards", {}, other);
        EXPECT_EQ(onwards.wait_for_subscribers(1, kLong), Outcome::kDone);
        {
          const bus::Sample mine = r.next_own();
          const bus::Tensor& tensor = mine.tensor();
          tensor.use_on(r.stream.get());
          r.stream.launch([words = own_words_of(tensor)] { write_pattern(words, 6); });
          onwards.publish({{{tensor.data(), tensor.layout(), tensor.device(), r.stream.get()}}});
        }
        const auto sample = last.receive(kLong);
        ASSERT_TRUE(sample);
        const Found found = read_on(r.stream, sample->tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 6U);
        EXPECT_EQ(onwards.stats().bytes_copied, 0U);
        tell(wire);
      });
}

TEST(CudaPrivateCopies, of_what_its_writer_died_over_are_not_intact) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        w.stream.pause();
        publish_filled(w.publisher, w.stream, 5);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        bus::Subscriber own("frames", {.access = Access::kPrivate}, us);
        const TestStream stream;
        const auto mine = own.receive(kLong);
        ASSERT_TRUE(mine);
        const bus::Sample copy = mine->copy();
        const Found found = read_on(stream, copy.tensor());
        EXPECT_TRUE(mine->tensor().intact());
        tell(wire);
        stream.synchronize();  // it goes on, since its writer is dead
        EXPECT_FALSE(mine->tensor().intact());
        EXPECT_FALSE(copy.tensor().intact());
      });
}

TEST(CudaPrivateCopies, wait_for_room_on_the_device) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        for (const std::uint64_t seed : {5U, 6U}) publish_filled(w.publisher, w.stream, seed);
        wait_for(wire);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        bus::Subscriber own("frames", {.access = Access::kPrivate}, us);
        const TestStream stream;
        standin_fail("cuMemCreate", 0, 2);
        for (int i = 0; i < 3; ++i) try {
            (void)own.receive(kLong);
            ADD_FAILURE() << "there was room";
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.what();
          }
        standin_fail("cuMemCreate", 0, 0);
        for (const std::uint64_t seed : {5U, 6U}) {
          const auto mine = own.receive(kLong);
          ASSERT_TRUE(mine);
          const Found found = read_on(stream, mine->tensor());
          stream.synchronize();
          EXPECT_EQ(*found, seed);
        }
        tell(wire);
      });
}

TEST(CudaPrivateCopies, of_a_thousand_samples_take_no_more_memory_than_a_few) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
          publish_filled(w.publisher, w.stream, seed);
          wait_for(wire);
        }
      },
      [&](int wire) {
        PrivateReader r(domain);
        const std::size_t before = standin_allocated_bytes(0);
        for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
          const Found mine = read_on(r.stream, r.next_own().tensor());
          const Found copied = read_on(r.stream, r.next().copy().tensor());
          r.stream.synchronize();
          EXPECT_EQ(*mine, seed);
          EXPECT_EQ(*copied, seed);
          tell(wire);
        }
        EXPECT_EQ(standin_allocated_bytes(0) - before, std::size_t{64} << 20) << "one segment";
        EXPECT_TRUE(eventually([&] { return r.used_bytes() == 0; }));
      });
}

TEST(CudaPrivateCopies, of_what_is_attached_are_made_too) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        bus::Loan loan =
            empty(Layout::contiguous(DType::kUInt64, {kWords}), false, w.us, Device::cuda(0));
        w.stream.launch([words = words_of(loan)] { write_pattern(words, 5); });
        TensorView view = loan.view();
        view.stream = w.stream.get();
        const bus::Shared shared = share({{view}}, {}, w.us);
        std::array<char, 4096> line{};
        const std::string handle = shared.handle().text();
        std::copy(handle.begin(), handle.end(), line.begin());
        standin::test::send(wire, line);
        wait_for(wire);
        EXPECT_EQ(seed_of(words_of(loan)), 5U);
      },
      [&](int wire) {
        const auto line = standin::test::receive<std::array<char, 4096>>(wire);
        const bus::ParticipantRef us = domain.join();
        const TestStream stream;
        const bus::Sample mine = attach(bus::Handle::parse(line.data()),
                                        {.access = Access::kPrivate, .timeout = kLong}, us);
        mine.tensor().use_on(stream.get());
        stream.launch([words = own_words_of(mine.tensor())] {
          EXPECT_EQ(seed_of(words), 5U);
          write_pattern(words, 6);
        });
        stream.synchronize();
        tell(wire);
      });
}

}  // namespace
}  // namespace tensorbus
