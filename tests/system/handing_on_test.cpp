// A shares, B attaches and hands on, C gets it from B: whoever of them dies, and where. Whoever
// lives goes on, sees no wrong byte, and all memory comes back.

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// Where each of them is killed, or stopped: an order for platform/kill_point.hpp without the
// action.
struct Orders {
  std::string a{};
  std::string b{};
  std::string c{};
  bool gone = false;  // C may have to do without
};

void PrintTo(const Orders& orders, std::ostream* out) {
  *out << "A " << orders.a << " B " << orders.b << " C " << orders.c;
}

class HandingOn : public ::testing::TestWithParam<Orders> {
 protected:
  explicit HandingOn(const std::string& action = "kill")
      : a(domain, order(GetParam().a, action)),
        b(domain, order(GetParam().b, action)),
        c(domain, order(GetParam().c, action)) {}

  static std::string order(const std::string& place, const std::string& action) {
    return place.empty() ? "" : place + ":" + action;
  }
  // What follows "ok ".
  static std::string rest(const std::string& reply) {
    return reply.substr(0, 3) == "ok " ? reply.substr(3) : "";
  }

  std::string handle_of_a() { return rest(a.ask("share 7 words=1000")); }
  // Everybody lets go, and the memory of those who live comes back.
  void all_memory_comes_back() {
    for (Peer* each : {&c, &b, &a}) {
      (void)each->ask("let_go");
      (void)each->ask("close_shares");
    }
    for (Peer* each : {&a, &b, &c})
      EXPECT_TRUE(eventually([&] {
        const std::string used = each->ask("used");
        return used == "ok 0" || used == "dead";
      })) << each->ask("used");
  }
  // Whoever had an order came to that place.
  void the_ordered_are_dead() {
    const std::pair<Peer*, std::string> all[] = {
        {&a, GetParam().a}, {&b, GetParam().b}, {&c, GetParam().c}};
    for (const auto& [peer, place] : all) {
      if (place.empty())
        EXPECT_FALSE(peer->has_ended());
      else
        EXPECT_TRUE(eventually([one = peer] { return one->has_ended(); })) << place;
    }
  }
  // Those who live hear each other still.
  void they_go_on() {
    Peer fresh(domain);
    const std::string handle = rest(fresh.ask("share 8"));
    for (Peer* each : {&a, &b, &c}) {
      const std::string reply = each->ask("attach " + handle);
      EXPECT_TRUE(reply == "ok 8" || reply == "dead") << reply;
    }
  }

  const FreshDomain domain;
  Peer a;
  Peer b;
  Peer c;
};

class Deaths : public HandingOn {};

TEST_P(Deaths, by_a_share_cost_nobody_a_byte) {
  const std::string from_a = handle_of_a();
  const std::string at_b = b.ask("attach " + from_a);
  if (at_b == "ok 7") {
    const std::string from_b = rest(b.ask("share_kept"));
    const std::string at_c = c.ask("attach " + from_b);
    if (at_c.substr(0, 5) == "error")
      EXPECT_TRUE(GetParam().gone) << at_c;
    else
      EXPECT_TRUE(at_c == "ok 7" || at_c == "dead") << at_c;
    (void)b.ask("let_go");
    for (int round = 0; round < 2; ++round) {
      const std::string kept = c.ask("check_kept");
      EXPECT_TRUE(kept == "ok 7" || kept == "dead" || (GetParam().gone && kept == "ok")) << kept;
      if (round == 0) (void)b.ask("close_shares");
    }
  } else {
    EXPECT_TRUE(at_b == "dead" || !GetParam().a.empty()) << at_b;
  }
  they_go_on();
  all_memory_comes_back();
  the_ordered_are_dead();
}

INSTANTIATE_TEST_SUITE_P(
    At, Deaths,
    ::testing::Values(Orders{}, Orders{.a = "lent.sent:1"}, Orders{.a = "acquire.received:1"},
                      Orders{.a = "lent.sent:2"}, Orders{.a = "publish.segment_sent:1"},
                      Orders{.a = "publish.segment_sent:2"},
                      // B has lent to C then, or is about to.
                      Orders{.b = "request.sent:1"}, Orders{.b = "lent.sent:1", .gone = true},
                      Orders{.b = "return.sent:1"}, Orders{.b = "segment.received:1"},
                      // C has asked B, then A.
                      Orders{.c = "request.sent:1"}, Orders{.c = "request.sent:2"},
                      Orders{.c = "return.sent:1"}, Orders{.c = "return.sent:2"},
                      Orders{.c = "segment.received:1"},
                      // A is dead before it lends, and B hands over.
                      Orders{.a = "acquire.received:1", .b = "handed.sent:1"},
                      Orders{.a = "acquire.received:1", .c = "request.sent:3"},
                      Orders{.a = "acquire.received:1", .c = "return.sent:1"},
                      Orders{.a = "acquire.received:1", .b = "lent.sent:1", .gone = true},
                      Orders{.a = "acquire.received:1", .b = "handed.sent:1", .c = "return.sent:1"},
                      Orders{.a = "lent.sent:2", .b = "return.sent:1"},
                      Orders{.a = "lent.sent:2", .b = "return.sent:1", .c = "return.sent:1"}));

class DeathsBeforePublishing : public HandingOn {};

TEST_P(DeathsBeforePublishing, of_the_owner_lose_no_sample) {
  ASSERT_EQ(b.ask("publisher onward"), "ok");
  ASSERT_EQ(c.ask("subscriber onward"), "ok");
  ASSERT_EQ(b.ask("await_subscribers 1"), "ok");
  ASSERT_EQ(b.ask("attach " + handle_of_a()), "ok 7");
  for (const char* seeds : {"ok 7", "ok 7 7"}) {
    ASSERT_EQ(b.ask("publish_kept"), "ok");
    EXPECT_EQ(c.ask("receive 1 keep"), "ok 7");
    EXPECT_EQ(c.ask("check_kept"), seeds);
  }
  EXPECT_EQ(b.ask("used"), "ok 0") << "nothing was copied";
  (void)b.ask("let_go");
  b.kill_and_wait();
  EXPECT_EQ(c.ask("check_kept"), "ok 7 7");
  all_memory_comes_back();
}

INSTANTIATE_TEST_SUITE_P(At, DeathsBeforePublishing,
                         ::testing::Values(Orders{}, Orders{.a = "acquire.received:1"},
                                           Orders{.a = "lent.sent:2"},
                                           Orders{.a = "acquire.received:2"},
                                           Orders{.a = "lent.sent:3"}));

// One of them is stopped for a while, and the others wait, or go on.
class Stops : public HandingOn {
 protected:
  Stops() : HandingOn("stop") {}
  // The reply to what `asked` was told, during which `stopped` stops once.
  static std::string during_a_stop(Peer& asked, const std::string& command, Peer& stopped) {
    asked.tell(command);
    EXPECT_TRUE(stopped.wait_until_stopped());
    stopped.signal(SIGCONT);
    return asked.reply();
  }
};

TEST_P(Stops, cost_time_alone) {
  const Orders& orders = GetParam();
  Peer& stopped = !orders.a.empty() ? a : !orders.b.empty() ? b : c;
  ASSERT_EQ(b.ask("attach " + handle_of_a()), "ok 7");
  const std::string attach = "attach " + rest(b.ask("share_kept"));
  EXPECT_EQ(during_a_stop(c, attach, stopped), "ok 7");
  EXPECT_EQ(c.ask("check_kept"), "ok 7");
  they_go_on();
  all_memory_comes_back();
}

INSTANTIATE_TEST_SUITE_P(At, Stops,
                         ::testing::Values(Orders{.a = "acquire.received:1"},
                                           Orders{.a = "lent.sent:2"}, Orders{.b = "lent.sent:1"},
                                           Orders{.c = "request.sent:1"},
                                           Orders{.c = "request.sent:2"}));

}  // namespace
}  // namespace tensorbus
