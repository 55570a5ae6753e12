#include "tensorbus/link/ring/segment_sender.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <optional>

#include "tensorbus/platform/files/memfd.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::link {
namespace {

using memory::Grant;

class Sender : public ::testing::Test {
 protected:
  // The next message is a SEGMENT; its descriptor's mode.
  int mode_of_next() {
    if (borrower.receive(received) != Channel::State::kMessage) return -1;
    if (received.header.type != ControlType::kSegment) return -1;
    const platform::Fd fd = received.take_fd();
    const int mode = ::fcntl(fd.get(), F_GETFL) & O_ACCMODE;
    EXPECT_EQ(received.as<SegmentMessage>().writable, mode == O_RDWR ? 1U : 0U);
    return mode;
  }
  bool nothing_more() { return borrower.receive(received) == Channel::State::kNothing; }

  testing::SocketPair sockets = testing::connected_sockets();
  std::shared_ptr<Channel> owner = std::make_shared<Channel>(std::move(sockets.one), [](bool) {});
  Channel borrower{std::move(sockets.other), [](bool) {}};
  Channel::Received received;
  std::shared_ptr<memory::Arena> arena = memory::Arena::create({});
  const memory::BlockRef read = arena->allocate(100);
  const memory::BlockRef write = arena->allocate(100, Grant::kWrite);
  SegmentSender sender{owner, arena};
};

TEST_F(Sender, passes_a_segment_once_for_each_grant) {
  for (int i = 0; i < 3; ++i) {
    sender.ensure_sent(write->segment(), Grant::kRead);
    sender.ensure_sent(write->segment(), Grant::kWrite);
    sender.ensure_sent(read->segment(), Grant::kRead);
  }
  EXPECT_EQ(mode_of_next(), O_RDONLY);
  EXPECT_EQ(mode_of_next(), O_RDWR);
  EXPECT_EQ(mode_of_next(), O_RDONLY);
  EXPECT_TRUE(nothing_more());
}

TEST_F(Sender, retires_a_segment_once_and_with_all_its_grants) {
  sender.ensure_sent(write->segment(), Grant::kRead);
  sender.ensure_sent(write->segment(), Grant::kWrite);
  (void)mode_of_next();
  (void)mode_of_next();
  sender.retire(write->segment());
  sender.retire(write->segment());
  sender.retire(read->segment());
  ASSERT_EQ(borrower.receive(received), Channel::State::kMessage);
  EXPECT_EQ(received.as<Retired>().number, write->segment());
  EXPECT_TRUE(nothing_more());
}

TEST_F(Sender, knows_what_the_borrower_has) {
  const PublishedSample sample(OneOrMany<memory::BlockRef>{read, write});
  EXPECT_FALSE(sender.has_arrived(sample, Grant::kRead));
  sender.mark_arrived(sample, Grant::kRead);  // of what was never sent
  EXPECT_FALSE(sender.has_arrived(sample, Grant::kRead));
  sender.ensure_sent(read->segment(), Grant::kRead);
  sender.mark_arrived(sample, Grant::kRead);
  EXPECT_FALSE(sender.has_arrived(sample, Grant::kRead)) << "the other segment is missing";
  sender.ensure_sent(write->segment(), Grant::kRead);
  EXPECT_FALSE(sender.has_arrived(sample, Grant::kRead));
  sender.mark_arrived(sample, Grant::kRead);
  EXPECT_TRUE(sender.has_arrived(sample, Grant::kRead));
  EXPECT_FALSE(sender.has_arrived(sample, Grant::kWrite));
  sender.retire(write->segment());
  EXPECT_FALSE(sender.has_arrived(sample, Grant::kRead));
}

// What waits for a borrower that was stopped has a descriptor each.
TEST_F(Sender, passes_no_more_than_so_many_to_a_borrower_that_does_not_read) {
  const std::size_t page = platform::page_bytes();
  arena = memory::Arena::create({.segment_bytes = page, .warm_bytes = 0});
  SegmentSender small(owner, arena);
  std::vector<memory::BlockRef> blocks;
  std::optional<Code> refused;
  while (!refused && blocks.size() < 2000) {
    blocks.push_back(arena->allocate(page));
    try {
      small.ensure_sent(blocks.back()->segment(), Grant::kRead);
    } catch (const Error& error) {
      refused = error.code();
    }
  }
  EXPECT_EQ(refused, Code::kSystem);
  while (owner->waiting() != 0) {
    while (borrower.receive(received) == Channel::State::kMessage) {
    }
    owner->flush();
  }
  small.ensure_sent(blocks.back()->segment(), Grant::kRead);
}

}  // namespace
}  // namespace tensorbus::link
