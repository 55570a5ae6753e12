// A borrower against owners that speak the control messages themselves, rightly and wrongly.

#include "tests/fakes/fake_owner.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/device/memory/device_exports.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

TEST_F(FakeOwner, of_another_name_than_its_socket_is_refused) {
  peer->say_hello(Id::random());
  hangs_up();
  EXPECT_NE(subscriber->stats().last_refusal.find("HELLO.id"), std::string::npos);
}

TEST_F(FakeOwner, that_refuses_is_quoted) {
  peer->channel.send(link::Refused{0, 0, "version 2 only"});
  hangs_up();
  EXPECT_NE(subscriber->stats().last_refusal.find("version 2 only"), std::string::npos);
  EXPECT_EQ(subscriber->stats().refused, 1U);
}

TEST_F(FakeOwner, that_refuses_with_noise_is_quoted_in_plain_text) {
  greet();
  peer->channel.send(link::Refused{number, 0, "no\xff\n"});
  EXPECT_TRUE(eventually([&] { return subscriber->stats().refused == 1; }));
  EXPECT_EQ(subscriber->stats().last_refusal, "no?\n");
}

TEST_F(FakeOwner, with_rings_that_make_no_sense_is_cut_off) {
  greet();
  memory.emplace(link::Geometry::for_link(4, 4));
  peer->channel.send(link::Accepted{.link = number, .slots = 64, .returns = 8, .max_held = 4},
                     fds_of(platform::duplicate(memory->memfd().get())));
  hangs_up();
}

TEST_F(FakeOwner, that_mirrors_what_has_no_name_is_cut_off) {
  greet();
  const link::Geometry geometry = link::Geometry::for_link(4, 4);
  memory.emplace(geometry);
  peer->channel.send(link::Accepted{.link = number,
                                    .slots = geometry.slots,
                                    .returns = geometry.returns,
                                    .max_held = 4,
                                    .machine = "robot",
                                    .publisher = "camera"},
                     fds_of(platform::duplicate(memory->memfd().get())));
  hangs_up();
}

TEST_F(FakeOwner, that_becomes_a_mirror_later_is_cut_off) {
  accept();
  peer->channel.send(link::Accepted{.link = number,
                                    .slots = 4,
                                    .returns = 8,
                                    .max_held = 4,
                                    .machine = "robot",
                                    .publisher = Id::random().hex() + ".1"},
                     fds_of(platform::duplicate(memory->memfd().get())));
  hangs_up();
}

TEST_F(FakeOwner, that_gives_more_than_was_asked_for_is_cut_off) {
  greet();
  const link::Geometry wide{1, 1 << 21};  // the subscriber's own table of it takes 16 MiB
  memory.emplace(wide);
  peer->channel.send(
      link::Accepted{
          .link = number, .slots = wide.slots, .returns = wide.returns, .max_held = 1 << 20},
      fds_of(platform::duplicate(memory->memfd().get())));
  hangs_up();
}

TEST_F(FakeOwner, with_a_file_of_huge_pages_is_cut_off) {
  platform::Fd file(::memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB));
  if (!file || ::ftruncate(file.get(), 4 << 20) != 0) GTEST_SKIP() << "no hugetlbfs here";
  accept();
  peer->channel.send(link::FileMessage{std::uint32_t{1} << 31, 4 << 20, 0, 0, "huge"},
                     fds_of(std::move(file)));
  hangs_up();
}

TEST_F(FakeOwner, with_an_unsealed_segment_is_cut_off) {
  accept();
  peer->channel.send(link::SegmentMessage{0, 4096, 0}, fds_of(link::testing::unsealed_memfd(4096)));
  hangs_up();
}

TEST_F(FakeOwner, with_a_segment_of_another_size_is_cut_off) {
  accept();
  peer->channel.send(link::SegmentMessage{0, 8192, 0},
                     fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

TEST_F(FakeOwner, with_memory_of_another_allocator_that_makes_no_sense_is_cut_off) {
  accept();
  link::DeviceExport said{
      .segment = memory::SegmentId::foreign(0), .kind = 1, .bytes = 4096, .device = {}};
  said.handle.assign(64, 'x');
  peer->channel.send(said);
  peer->channel.send(said);  // twice
  hangs_up();
}

TEST_F(FakeOwner, that_grants_neither_to_read_nor_to_write_is_cut_off) {
  accept();
  peer->channel.send(link::SegmentMessage{0, 4096, 2},
                     fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

TEST_F(FakeOwner, that_grants_to_write_what_cannot_be_written_is_cut_off) {
  accept();
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  peer->channel.send(link::SegmentMessage{0, 4096, 1},
                     fds_of(platform::reopen_read_only(segment.get())));
  hangs_up();
}

TEST_F(FakeOwner, that_sends_a_segment_twice_with_one_grant_is_cut_off) {
  accept();
  for (int i = 0; i < 2; ++i)
    peer->channel.send(link::SegmentMessage{0, 4096, 1},
                       fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

// What was granted to others of this process is not what this subscriber asked for.
TEST_F(FakeOwner, that_is_careless_with_descriptors_makes_nothing_writable) {
  accept();
  EXPECT_EQ(asked_to_write, 0U);
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 4096, 1}, fds_of(platform::duplicate(segment.get())));
  ring.push(0, entry_of(0, 64));
  EXPECT_FALSE(subscriber->receive(5ms)) << "it waits for the one to read";
  peer->channel.send(link::SegmentMessage{0, 4096, 0}, fds_of(platform::duplicate(segment.get())));
  const auto sample = subscriber->receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_EQ(seed_of(*sample), 3U);
  EXPECT_FALSE(sample->tensor().writable());
}

class FakeOwnerOfWriters : public FakeOwner {
 protected:
  FakeOwnerOfWriters() : FakeOwner({.access = Access::kShared}) {}
};

TEST_F(FakeOwnerOfWriters, is_asked_for_memory_to_write) {
  accept();
  EXPECT_EQ(asked_to_write, 1U);
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  ring.push(0, entry_of(0, 64));
  peer->channel.send(link::SegmentMessage{0, 4096, 0},
                     fds_of(platform::reopen_read_only(segment.get())));
  EXPECT_FALSE(subscriber->receive(5ms)) << "it waits for the one to write";
  peer->channel.send(link::SegmentMessage{0, 4096, 1}, fds_of(platform::duplicate(segment.get())));
  const auto sample = subscriber->receive(kLong);
  ASSERT_TRUE(sample);
  sample->tensor().as_mutable<std::uint64_t>()[63] = 5;
  EXPECT_EQ(reinterpret_cast<std::uint64_t*>(mapping.data())[63], 5U);
}

class FakeOwnerOfPrivate : public FakeOwner {
 protected:
  FakeOwnerOfPrivate() : FakeOwner({.access = Access::kPrivate}) {}
};

TEST_F(FakeOwnerOfPrivate, may_have_a_segment_of_any_size_and_samples_that_make_no_sense) {
  accept();
  EXPECT_EQ(asked_to_write, 0U);
  const platform::Fd segment = platform::create_sealed_memfd("x", 5000);
  const platform::Mapping mapping(segment.get(), 5000, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data() + 4488), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 5000, 0},
                     fds_of(platform::reopen_read_only(segment.get())));
  ring.push(0, entry_of(4496, 64));  // beyond the segment, not beyond its page
  ring.push(1, entry_of(~std::uint64_t{0} - 7, 2));
  ring.push(2, entry_of(4488, 64));
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{3});
  EXPECT_EQ(subscriber->stats().bad, 2U);
  EXPECT_EQ(subscriber->stats().held, 0U);
}

TEST_F(FakeOwner, whose_samples_make_no_sense_is_counted_and_the_good_ones_arrive) {
  accept();
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 4096, 0},
                     fds_of(platform::reopen_read_only(segment.get())));
  ring.push(0, entry_of(4096 - 8, 2));  // beyond the segment
  ring.push(1, entry_of(~std::uint64_t{0} - 7, 2));
  link::Entry garbage = entry_of(0, 64);
  garbage.inline_bytes[0] = std::byte{99};
  ring.push(2, garbage);
  ring.push(3, entry_of(0, 64));
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{3});
  EXPECT_EQ(subscriber->stats().bad, 3U);
  EXPECT_EQ(subscriber->stats().held, 0U);
}

TEST_F(FakeOwner, whose_rows_make_no_sense_is_counted_and_the_good_ones_are_copied) {
  accept();
  std::array<std::uint64_t, 4 * 64> rows{};
  const Layout layout = Layout::contiguous(DType::kUInt64, {4, 64});
  std::size_t count = 0;
  ring.push(0, entry_of(0, 64));  // before its segment
  EXPECT_EQ(subscriber->receive_into(rows.data(), layout, count, 5ms), Outcome::kTimedOut);
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 4096, 0},
                     fds_of(platform::reopen_read_only(segment.get())));
  ring.push(1, entry_of(4096 - 63 * 8, 64));  // beyond the segment
  ring.push(2, entry_of(~std::uint64_t{0} - 7, 64));
  link::Entry garbage = entry_of(0, 64);
  garbage.length = 1000;  // inline, which has room for 64
  ring.push(3, garbage);
  for (const std::uint64_t position : {3, 4}) {
    ASSERT_EQ(subscriber->receive_into(rows.data(), layout, count, kLong), Outcome::kDone);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(seed_of(std::span(rows).first(64)), 3U);
    rows.fill(0);
    if (position == 3) ring.push(4, entry_of(0, 64));
  }
  EXPECT_EQ(subscriber->stats().bad, 3U);
  EXPECT_EQ(subscriber->stats().held, 0U);
}

TEST_F(FakeOwner, that_places_a_tensor_at_an_odd_address_gets_no_elements_read_there) {
  accept();
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  peer->channel.send(link::SegmentMessage{0, 4096, 0},
                     fds_of(platform::reopen_read_only(segment.get())));
  ring.push(0, entry_of(1, 64));
  const auto sample = subscriber->receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_EQ(code_of([&] { (void)sample->tensor().as<std::uint64_t>(); }), Code::kInvalidArgument);
  EXPECT_EQ(sample->tensor().data()[64 * 8 - 1], std::byte{0});
}

TEST_F(FakeOwner, that_floods_with_garbage_delivers_nothing) {
  accept();
  link::Entry garbage;
  garbage.length = 1000;  // inline, which has room for 64
  std::atomic<bool> enough{false};
  std::thread flood([&] {
    for (std::uint64_t position = 0; !enough; ++position) ring.push(position, garbage);
  });
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE(subscriber->receive(std::chrono::milliseconds(1)).has_value());
    return subscriber->stats().bad > 1000;
  }));
  enough = true;
  flood.join();
}

TEST_F(FakeOwner, may_send_a_segment_after_the_sample_that_lies_in_it) {
  accept();
  ring.push(0, entry_of(0, 64));
  EXPECT_FALSE(subscriber->receive(5ms));
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 4096, 0},
                     fds_of(platform::reopen_read_only(segment.get())));
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{3});
}

// Or else ready() re-arms the descriptor over the only signal that there will be.
TEST_F(FakeOwner, that_sends_a_segment_late_makes_the_subscriber_ready) {
  accept();
  (void)subscriber->event_descriptor();
  ring.push(0, entry_of(0, 64));
  EXPECT_FALSE(subscriber->try_receive());
  EXPECT_FALSE(subscriber->ready());
  EXPECT_TRUE(subscriber->receiver().may_have_older());
  peer->channel.send(link::SegmentMessage{0, 4096, 0},
                     fds_of(platform::create_sealed_memfd("x", 4096)));
  EXPECT_TRUE(eventually([&] { return subscriber->ready(); }));
  EXPECT_TRUE(subscriber->try_receive());
  EXPECT_FALSE(subscriber->receiver().may_have_older());
  EXPECT_FALSE(subscriber->ready());
}

TEST_F(FakeOwner, that_has_not_answered_yet_may_have_published) {
  greet();
  subscriber->receiver().stop_here();
  EXPECT_TRUE(subscriber->receiver().has_left());
  EXPECT_TRUE(subscriber->receiver().may_have_older());
  peer.reset();
  EXPECT_TRUE(eventually([&] { return !subscriber->receiver().has_left(); }));
  EXPECT_FALSE(subscriber->receiver().may_have_older());
}

TEST_F(FakeOwner, that_never_greets_keeps_no_subscriber_that_was_closed) {
  subscriber->close();
  EXPECT_TRUE(eventually([&] {
    return peer->channel.receive(peer->received) == link::Channel::State::kEnded;
  })) << "the connection stays";
}

TEST_F(FakeOwner, that_dies_before_it_sent_a_segment_leaves_what_lies_behind_ready) {
  accept();
  (void)subscriber->event_descriptor();
  tensor::Descriptor empty;
  link::Entry entry;
  entry.length = static_cast<std::uint32_t>(empty.encoded_bytes());
  empty.encode(std::span(entry.inline_bytes).first(entry.length));
  ring.push(0, entry_of(0, 64));
  ring.push(1, entry);
  EXPECT_FALSE(subscriber->try_receive());
  EXPECT_FALSE(subscriber->ready());
  peer.reset();
  EXPECT_TRUE(eventually([&] { return subscriber->ready(); }));
  EXPECT_TRUE(subscriber->try_receive());
  EXPECT_EQ(subscriber->stats().bad, 1U);
}

TEST_F(FakeOwner, that_dies_before_it_sent_a_segment_leaves_a_bad_sample) {
  accept();
  ring.push(0, entry_of(0, 64));
  EXPECT_FALSE(subscriber->receive(5ms));
  peer.reset();
  EXPECT_TRUE(eventually([&] {
    (void)subscriber->try_receive();
    return subscriber->stats().bad == 1;
  }));
}

TEST_F(FakeOwner, whose_ring_is_garbage_blocks_nobody) {
  accept();
  std::uint64_t word = 1;
  for (int round = 0; round < 2000; ++round) {
    for (link::Slot& slot : memory->slots()) {
      slot.state = (word = word * 6364136223846793005ULL + 1) >> word % 64;
      for (auto& part : slot.words) part = word = word * 6364136223846793005ULL + 1;
    }
    bus::Sample sample;
    (void)subscriber->try_receive(sample);
  }
  EXPECT_EQ(subscriber->stats().received, 0U);
}

TEST_F(FakeOwner, whose_ring_says_for_ever_that_there_is_something_is_cut_off) {
  (void)subscriber->event_descriptor();
  accept();
  for (link::Slot& slot : memory->slots()) slot.state = ~std::uint64_t{0};
  EXPECT_FALSE(subscriber->try_receive());
  EXPECT_FALSE(subscriber->ready()) << "nobody is told to look again";
  EXPECT_EQ(subscriber->stats().bad, 1U);
  EXPECT_NE(subscriber->stats().last_refusal.find(self.hex()), std::string::npos);
  EXPECT_EQ(subscriber->stats().publishers, 0U);
  EXPECT_EQ(peer->next(), ControlType::kUnsubscribe);
  EXPECT_EQ(peer->next(), ControlType::kDone);
  hangs_up();
}

TEST_F(FakeOwner, whose_ring_is_nonsense_and_who_is_gone_costs_nothing_any_more) {
  accept();
  for (link::Slot& slot : memory->slots()) slot.state = ~std::uint64_t{0};
  peer.reset();
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE(subscriber->try_receive());
    return !subscriber->ready() && subscriber->stats().bad == 1;
  }));
}

TEST_F(FakeOwner, that_is_short_of_memory_is_asked_again) {
  greet();
  peer->channel.send(
      link::Refused{number, static_cast<std::uint32_t>(Code::kOutOfMemory), "no memory now"});
  ASSERT_EQ(peer->next(), ControlType::kDone);
  EXPECT_EQ(peer->next(), ControlType::kSubscribe);
  EXPECT_EQ(subscriber->stats().last_refusal, "no memory now");
}

TEST_F(FakeOwner, that_hangs_up_and_lives_is_called_again) {
  accept();
  peer.reset();
  platform::Fd socket;
  // First come those that only look whether it is dead.
  EXPECT_TRUE(eventually([&] {
    if (!(socket = platform::accept_from(listener.get()))) return false;
    peer.emplace(std::move(socket));
    return peer->next() == ControlType::kHello;
  }));
  accept();
  ring.push(0, entry_of(0, 0));
  bus::Sample sample;
  EXPECT_EQ(subscriber->receive(sample, kLong), Outcome::kDone);
}

// Whoever shuts a notifier makes it readable for ever; the subscriber stops listening to that one.
TEST_F(FakeOwner, that_shuts_its_notifier_keeps_nobody_awake) {
  const int fd = subscriber->event_descriptor();
  accept();
  ASSERT_EQ(peer->received.datagram.fds.size(), 1U) << "the notifier came with SUBSCRIBE";
  const platform::Fd notifier = std::move(peer->received.datagram.fds[0]);
  ::shutdown(notifier.get(), SHUT_RDWR);
  EXPECT_FALSE(subscriber->try_receive());
  pollfd ready{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  ring.push(0, entry_of(0, 0));
  EXPECT_EQ(::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kLong).count())), 1)
      << "without a notifier the subscriber looks by itself from time to time";
  EXPECT_TRUE(subscriber->try_receive());
}

}  // namespace
}  // namespace tensorbus::bus
