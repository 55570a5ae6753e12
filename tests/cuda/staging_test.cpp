// Tensors of a GPU that the receiver cannot use: they come through host memory.

#include "no_gpu_reader.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"

namespace tensorbus {
namespace {

using namespace testing;

class HostCopyRequest : public ::testing::TestWithParam<Environment> {};

TEST_P(HostCopyRequest, a_tensor_arrives_in_host_memory_and_says_where_it_was) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          w.stream.pause();  // the copy waits for what writes it
          publish_on(w, 1, seed);
          w.stream.resume();
          wait_for(wire);
        }
        EXPECT_TRUE(eventually([&] { return w.used_bytes(1) == 0; }));
        EXPECT_LE(w.us->memory_use().blocks, 5U) << "some copies rest, not all";
        tell(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const bus::Sample sample = b.next();
          EXPECT_EQ(sample.tensor().device(), Device::host());
          EXPECT_EQ(sample.tensor().published_on(), Device::cuda(1));
          EXPECT_EQ(seed_in(sample.tensor()), seed);
          tell(wire);
        }
        EXPECT_EQ(b.subscriber.stats().staged, 20U);
        wait_for(wire);
      },
      GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cuda, HostCopyRequest, ::testing::Values(kOtherDevice, kNoDriver));

TEST(CudaStaging, several_tensors_of_one_block_and_of_the_host_keep_their_layouts) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        bus::Loan loan = loan_of(w.publisher, 1);
        std::span<std::uint64_t> words = words_of(loan);
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
        TensorView column = loan.view();
        column.layout.shape = {64};
        column.layout.strides = {64};
        column.data = words.data() + 3;
        column.stream = w.stream.get();
        TensorView backwards = column;
        backwards.data = words.data() + 4000;
        backwards.layout.strides = {-2};
        const std::array<std::uint64_t, 2> on_host{7, 8};
        w.publisher.publish({{column, TensorView::of(on_host.data(), {2}), backwards}});
        wait_for(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        const bus::Sample sample = b.next();
        ASSERT_EQ(sample.tensors().size(), 3U);
        const bus::Tensor& column = sample.tensors()[0];
        const bus::Tensor& backwards = sample.tensors()[2];
        for (int i = 0; i < 64; ++i) {
          EXPECT_EQ(reinterpret_cast<const std::uint64_t*>(column.data())[i * 64], 3U + i * 64);
          EXPECT_EQ(reinterpret_cast<const std::uint64_t*>(backwards.data())[-i * 2],
                    4000U - i * 2);
        }
        EXPECT_EQ(sample.tensors()[1].as<std::uint64_t>()[1], 8U);
        EXPECT_EQ(sample.tensors()[1].published_on(), Device::host());
        EXPECT_EQ(backwards.published_on(), Device::cuda(1));
        tell(wire);
      },
      kNoDriver);
}

TEST(CudaStaging, there_is_one_copy_for_all_who_need_one) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        EXPECT_EQ(w.publisher.wait_for_subscribers(3, kLong), Outcome::kDone);
        const std::size_t before = standin_calls("cuMemcpyAsync");
        publish_on(w, 1, 5);
        wait_for(wire);
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), before + 1);
        publish_on(w, 1, 6);
        wait_for(wire);
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), before + 2);
      },
      [&](int wire) {
        NoGpuReader first(domain);
        bus::Subscriber second("frames", {}, first.us);
        NoGpuReader third(domain);
        for (const std::uint64_t seed : {5U, 6U}) {
          EXPECT_EQ(seed_in(first.next().tensor()), seed);
          const auto sample = second.receive(kLong);
          ASSERT_TRUE(sample);
          EXPECT_EQ(seed_in(sample->tensor()), seed);
          EXPECT_EQ(seed_in(third.next().tensor()), seed);
          tell(wire);
        }
      },
      kNoDriver);
}

TEST(CudaStaging, a_private_subscriber_writes_to_its_own_pages) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        bus::Subscriber other("frames", {}, us);
        NoGpuReader b(domain, {.access = Access::kPrivate});
        const bus::Sample sample = b.next();
        const bus::Tensor& tensor = sample.tensor();
        EXPECT_EQ(seed_in(tensor), 5U);
        tensor.as_mutable<std::uint64_t>()[0] = 99;
        const auto unchanged = other.receive(kLong);
        ASSERT_TRUE(unchanged);
        EXPECT_EQ(seed_in(unchanged->tensor()), 5U);
        tell(wire);
      },
      kOtherDevice);
}

TEST(CudaStaging, what_was_published_again_is_copied_again) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        bus::Loan standing =
            empty(Layout::contiguous(DType::kUInt64, {kWords}), false, w.us, Device::cuda(1));
        for (const std::uint64_t seed : {5U, 6U}) {
          w.stream.launch([words = words_of(standing), seed] { write_pattern(words, seed); });
          TensorView view = standing.view();
          view.stream = w.stream.get();
          w.publisher.publish(view);
          wait_for(wire);
        }
      },
      [&](int wire) {
        NoGpuReader b(domain);
        for (const std::uint64_t seed : {5U, 6U}) {
          EXPECT_EQ(seed_in(b.next().tensor()), seed);
          tell(wire);
        }
      },
      kNoDriver);
}

TEST(CudaStaging, the_copy_is_handed_on_by_reference) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        bus::Publisher onwards("onwards", {}, b.us);
        const bus::ParticipantRef other = domain.join();
        bus::Subscriber last("onwards", {}, other);
        EXPECT_EQ(onwards.wait_for_subscribers(1, kLong), Outcome::kDone);
        {
          const bus::Sample sample = b.next();
          onwards.publish({{{sample.tensor().data(), sample.tensor().layout()}}});
        }
        EXPECT_EQ(onwards.stats().bytes_copied, 0U);
        const auto sample = last.receive(kLong);
        ASSERT_TRUE(sample);
        EXPECT_EQ(seed_in(sample->tensor()), 5U);
        tell(wire);
      },
      kNoDriver);
}

TEST(CudaStaging, what_somebody_who_sees_the_device_hands_on_is_copied_by_its_owner) {
  const FreshDomain domain;
  auto relay = start_process({}, [&] {
    Reader r(domain);
    bus::Publisher onwards("onwards", {}, r.us);
    EXPECT_EQ(onwards.wait_for_subscribers(1, kLong), Outcome::kDone);
    const bus::Sample sample = r.next();
    const bus::Tensor& tensor = sample.tensor();
    onwards.publish({{{tensor.data(), tensor.layout(), tensor.device(), r.stream.get()}}});
    EXPECT_EQ(onwards.stats().bytes_copied, 0U);
    EXPECT_TRUE(eventually([&] { return onwards.stats().bytes_in_flight == 0; }));
    EXPECT_EQ(onwards.wait_for_subscribers(0, kLong), Outcome::kDone);
    EXPECT_TRUE(eventually([&] { return onwards.stats().subscribers == 0; }));
  });
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        bus::Subscriber last("onwards", {}, us);
        const auto sample = last.receive(kLong);
        ASSERT_TRUE(sample);
        EXPECT_EQ(seed_in(sample->tensor()), 5U);
        EXPECT_EQ(sample->tensor().published_on(), Device::cuda(1));
        tell(wire);
      },
      kNoDriver);
  EXPECT_EQ(relay.wait(), "exit 0");
}

TEST(CudaStaging, shares_and_queues_come_the_same_way) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        bus::Loan loan =
            empty(Layout::contiguous(DType::kUInt64, {kWords}), false, w.us, Device::cuda(1));
        w.stream.launch([words = words_of(loan)] { write_pattern(words, 5); });
        TensorView view = loan.view();
        view.stream = w.stream.get();
        const bus::Shared shared = share({{view}}, {}, w.us);
        bus::Queue queue({.name = "items"}, w.us);
        EXPECT_EQ(queue.put({{view}}), Outcome::kDone);
        std::array<char, 4096> line{};
        const std::string handle = shared.handle().text();
        std::copy(handle.begin(), handle.end(), line.begin());
        standin::test::send(wire, line);
        wait_for(wire);
      },
      [&](int wire) {
        const auto line = standin::test::receive<std::array<char, 4096>>(wire);
        const bus::ParticipantRef us = domain.join();
        const bus::Sample attached =
            attach(bus::Handle::parse(line.data()), {.timeout = kLong}, us);
        EXPECT_EQ(seed_in(attached.tensor()), 5U);
        EXPECT_EQ(attached.tensor().published_on(), Device::cuda(1));
        bus::Queue queue = bus::Queue::open("items", kLong, us);
        bus::Sample item;
        EXPECT_EQ(queue.get(item, kLong), Outcome::kDone);
        EXPECT_EQ(seed_in(item.tensor()), 5U);
        tell(wire);
      },
      kNoDriver);
}

}  // namespace
}  // namespace tensorbus
