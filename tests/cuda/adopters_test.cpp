// What a process that died has left in memory of a GPU, and who hands it on.

#include "foreign.hpp"
#include "items.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tests/fakes/fake_peer.hpp"

namespace tensorbus {
namespace {

using namespace testing;
using standin::test::receive;

// Puts, and is killed when it is told to. `written`: by then.
void put_and_die(const FreshDomain& domain, int wire, bool written, int device = 0) {
  const Client c(domain);
  const TestStream stream(device);
  bus::Queue queue = c.open();
  if (!written) stream.pause();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) put_filled(queue, c.us, stream, seed, device);
  if (written) standin_finish();
  standin::test::send(wire, c.us->id());
  wait_for(wire);
  ::raise(SIGKILL);
}

void die_now(const FreshDomain& domain, int wire) {
  const Id id = receive<Id>(wire);
  tell(wire);
  await_death(domain, id);
}

class CudaHeirs : public ::testing::TestWithParam<Environment> {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaHeirs,
                         ::testing::Values(Environment(), kOtherDevice, kNoDriver));

TEST_P(CudaHeirs, that_host_a_queue_hand_on_what_a_dead_producer_has_put) {
  const FreshDomain domain;
  const HostProcess host(domain, GetParam());
  while_the_first_is_killed([&](int wire) { put_and_die(domain, wire, true, 1); },
                            [&](int wire) {
                              const Client c(domain);
                              const TestStream stream(1);
                              bus::Queue queue = c.open();
                              die_now(domain, wire);
                              std::vector<bus::Sample> items;
                              for (std::uint64_t seed = 1; seed <= 3; ++seed) {
                                items.push_back(next_item(queue));
                                expect_on_device(stream, items.back().tensor(), seed);
                              }
                              EXPECT_EQ(standin_open_mappings(), 1U) << "of the one segment";
                            });
}

TEST_P(CudaHeirs, hand_nothing_on_that_was_half_written) {
  const FreshDomain domain;
  const HostProcess host(domain, GetParam());
  while_the_first_is_killed([&](int wire) { put_and_die(domain, wire, false); },
                            [&](int wire) {
                              const Client c(domain);
                              bus::Queue queue = c.open();
                              die_now(domain, wire);
                              bus::Sample item;
                              for (int i = 0; i < 3; ++i)
                                EXPECT_EQ(queue.get(item, kLong), Outcome::kClosed);
                              EXPECT_EQ(queue.get(item, 0ns), Outcome::kTimedOut);
                            });
}

TEST(CudaHeirs, do_not_have_memory_of_other_allocators) {
  const FreshDomain domain;
  const HostProcess host(domain);
  while_the_first_is_killed(
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        const Foreign memory = allocation();
        memory.write(stream, 5, 0);
        EXPECT_EQ(queue.put({{memory.view(stream, 0)}}, kLong), Outcome::kDone);
        standin_finish();
        standin::test::send(wire, c.us->id());
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        const Client c(domain);
        bus::Queue queue = c.open();
        die_now(domain, wire);
        bus::Sample item;
        EXPECT_EQ(queue.get(item, kLong), Outcome::kClosed);
        EXPECT_EQ(queue.get(item, 0ns), Outcome::kTimedOut);
      });
}

TEST(CudaHeirs, of_a_participant_that_left_wait_for_what_its_process_still_writes) {
  const FreshDomain domain;
  const HostProcess host(domain, kNoDriver);
  in_two_processes(
      [&](int wire) {
        const TestStream stream;
        stream.pause();
        {
          const Client c(domain);
          bus::Queue queue = c.open();
          put_filled(queue, c.us, stream, 5);
          standin::test::send(wire, c.us->id());
        }
        wait_for(wire);
        stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        await_death(domain, receive<Id>(wire));
        bus::Sample item;
        EXPECT_EQ(queue.get(item, std::chrono::milliseconds(200)), Outcome::kTimedOut);
        tell(wire);
        EXPECT_EQ(queue.get(item, kLong), Outcome::kDone);
        expect_on_device(stream, item.tensor(), 5);
        tell(wire);
      });
}

TEST(CudaHeirs, keep_what_was_left_mapped_until_their_streams_have_passed) {
  const FreshDomain domain;
  const HostProcess host(domain);
  while_the_first_is_killed([&](int wire) { put_and_die(domain, wire, true); },
                            [&](int wire) {
                              const TestStream stream;
                              std::optional<Client> c(std::in_place, domain);
                              std::optional<bus::Queue> queue(c->open());
                              die_now(domain, wire);
                              stream.pause();
                              const Found found = read_on(stream, next_item(*queue).tensor());
                              queue.emplace(c->open());
                              c.reset();
                              EXPECT_EQ(standin_open_mappings(), 1U);
                              stream.resume();
                              stream.synchronize();
                              EXPECT_EQ(*found, 1U);
                            });
}

// A publishes, B receives and hands on, A is killed, C gets it from B.
void publish_and_die(const FreshDomain& domain, int wire, bool written) {
  Writer w(domain);
  w.wait_for_reader();
  if (!written) w.stream.pause();
  publish_filled(w.publisher, w.stream, 5);
  if (written) standin_finish();
  standin::test::send(wire, w.us->id());
  wait_for(wire);
  ::raise(SIGKILL);
}

TensorView view_of(const bus::Tensor& tensor, const TestStream& stream) {
  return {tensor.data(), tensor.layout(), tensor.device(), stream.get()};
}

TEST(CudaHeirs, publish_and_share_what_a_dead_publisher_has_left) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) { publish_and_die(domain, wire, true); },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        die_now(domain, wire);
        bus::Publisher onwards("onwards", {.history = 1}, r.us);
        onwards.publish({{view_of(sample.tensor(), r.stream)}});
        const bus::Shared shared = share({{view_of(sample.tensor(), r.stream)}}, {}, r.us);
        EXPECT_EQ(onwards.stats().bytes_copied, 0U);
        const bus::ParticipantRef other = domain.join();
        bus::Subscriber last("onwards", {}, other);
        const auto received = last.receive(kLong);
        ASSERT_TRUE(received);
        expect_on_device(r.stream, received->tensor(), 5);
        const bus::Sample attached = attach(shared.handle(), {.timeout = kLong}, other);
        expect_on_device(r.stream, attached.tensor(), 5);
      });
}

TEST(CudaHeirs, publish_and_share_nothing_that_was_half_written) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) { publish_and_die(domain, wire, false); },
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
        bus::Publisher onwards("onwards", {.history = 1}, r.us);
        onwards.publish({{view_of(sample.tensor(), r.stream)}});
        const bus::Shared shared = share({{view_of(sample.tensor(), r.stream)}}, {}, r.us);
        die_now(domain, wire);
        const bus::ParticipantRef other = domain.join();
        bus::Subscriber last("onwards", {}, other);
        EXPECT_TRUE(eventually([&] {
          EXPECT_FALSE(last.try_receive());
          return last.stats().gone == 1;
        }));
        EXPECT_EQ(code_of([&] { (void)attach(shared.handle(), {.timeout = kLong}, other); }),
                  Code::kClosed);
      });
}

TEST(CudaHeirs, that_die_leave_what_they_were_left_to_who_has_it) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) { publish_and_die(domain, wire, true); },
      [&](int wire) {
        while_the_first_is_killed(
            [&](int below) {
              Reader r(domain);
              const bus::Sample sample = r.next();
              die_now(domain, wire);
              const bus::Shared shared = share({{view_of(sample.tensor(), r.stream)}}, {}, r.us);
              send_handle(below, shared.handle());
              standin::test::send(below, r.us->id());
              wait_for(below);
              ::raise(SIGKILL);
            },
            [&](int above) {
              const Client c(domain);
              const TestStream stream;
              const bus::Sample sample = attach(receive_handle(above), {.timeout = kLong}, c.us);
              die_now(domain, above);
              expect_on_device(stream, sample.tensor(), 5);
              const bus::Shared shared = share({{view_of(sample.tensor(), stream)}}, {}, c.us);
              const bus::ParticipantRef other = domain.join();
              const bus::Sample again = attach(shared.handle(), {.timeout = kLong}, other);
              expect_on_device(stream, again.tensor(), 5);
            });
      });
}

TEST(CudaHeirs, answer_nobody_who_was_not_lent_it) {
  const FreshDomain domain;
  const HostProcess host(domain);
  while_the_first_is_killed(
      [&](int wire) { put_and_die(domain, wire, true); },
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        const Id dead = receive<Id>(wire);
        tell(wire);
        await_death(domain, dead);
        const Id heir =
            *Id::parse(queue.address().substr(std::string("tensorbus-queue:").size(), 32));
        bus::testing::FakePeer peer(bus::Domain{domain.path()}.connect(heir).socket);
        peer.say_hello();
        EXPECT_EQ(peer.next(), link::ControlType::kHello);
        for (const std::uint32_t link : {0U, 1U})
          for (const std::uint64_t token : {0U, 1U}) {
            peer.channel.send(
                link::HandOver{1, dead, memory::SegmentId::device(0, 0), 0, link, token});
            EXPECT_EQ(peer.next(), link::ControlType::kDenied);
          }
        expect_on_device(stream, next_item(queue).tensor(), 1);
      });
}

}  // namespace
}  // namespace tensorbus
