// An explicit-state model of a request to a process that may have no room for the connection
// (docs/internals/protocol.md, "No room for a connection"). The owner accepts, refuses, hangs up
// without a message, replies and dies; the requester reads, pauses and runs out of time; all in
// every order.

#include <gtest/gtest.h>

#include <compare>
#include <set>
#include <string>
#include <vector>

namespace tensorbus::bus::testing {
namespace {

// Mistakes that the model must find.
enum class Mistake {
  kNone,
  kRefusesAfterHello,    // the owner gives up a connection after it has sent HELLO
  kHandlesBeforeHello,   // the owner handles requests of a connection that it may turn away
  kEndIsDeath,           // the requester treats an end before HELLO as the owner's death
  kRefusalIsAnEnd,       // the requester does not send its request again
  kOutOfTimeWhileAsked,  // the requester is out of time while its request is under way
};

enum class Owner { kNoConnection, kNew, kGreeted, kDead };
enum class Requester { kAsks, kPauses, kAnswered, kOutOfMemory, kClosed };
enum class Message { kRefused, kHello, kAnswer };

struct State {
  Owner owner = Owner::kNoConnection;
  Requester requester = Requester::kPauses;
  bool request = false;  // the request is unread at the owner
  std::vector<Message> to_requester{};
  bool hung_up = false;  // after the messages in to_requester
  bool greeted = false;  // the requester has read HELLO
  int attempts = 0;
  int handled = 0;
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  explicit Model(Mistake mistake) : mistake_(mistake) {}

  // Explores every state that can be reached. Returns the first broken invariant, or "".
  std::string explore() {
    enter({});
    while (!todo_.empty() && violation_.empty()) {
      const State state = todo_.back();
      todo_.pop_back();
      moved_ = false;
      owner_steps(state);
      requester_steps(state);
      const bool over = state.requester > Requester::kPauses;
      expect(moved_ || over, "the requester waits in vain");
      if (state.owner != Owner::kDead) hang_up(state, Owner::kDead);
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }

 private:
  static constexpr int kMaxAttempts = 3;  // until the requester is out of time

  void owner_steps(const State& from) {
    if (from.owner == Owner::kNew || (is(Mistake::kRefusesAfterHello) && greeted(from))) {
      hang_up(from, Owner::kNoConnection);
      State refused = from;
      refused.to_requester.push_back(Message::kRefused);
      hang_up(refused, Owner::kNoConnection);
    }
    if (from.owner == Owner::kNew) {
      State state = from;
      state.owner = Owner::kGreeted;
      state.to_requester.push_back(Message::kHello);
      if (!from.request) state.to_requester.push_back(Message::kAnswer);
      enter(state);
    }
    if (from.request && (greeted(from) || is(Mistake::kHandlesBeforeHello))) {
      State state = from;
      state.request = false;
      ++state.handled;
      if (greeted(from)) state.to_requester.push_back(Message::kAnswer);
      enter(state);
    }
  }
  static bool greeted(const State& state) { return state.owner == Owner::kGreeted; }
  void hang_up(State state, Owner after) {
    state.hung_up = state.hung_up || state.owner != Owner::kNoConnection;
    state.owner = after;
    state.request = false;
    enter(state);
  }

  void requester_steps(const State& from) {
    if (from.requester == Requester::kPauses) return connect(from);
    if (from.requester != Requester::kAsks) return;
    if (is(Mistake::kOutOfTimeWhileAsked) && from.attempts > 1) end(from, Requester::kOutOfMemory);
    if (!from.to_requester.empty()) return read(from);
    if (!from.hung_up) return;
    if (from.greeted || is(Mistake::kEndIsDeath)) return end(from, Requester::kClosed);
    turned_away(from);
  }
  void connect(State state) {
    if (state.owner == Owner::kDead) return end(state, Requester::kClosed);
    state.owner = Owner::kNew;
    state.requester = Requester::kAsks;
    state.request = true;
    state.to_requester.clear();
    state.hung_up = false;
    ++state.attempts;
    enter(state);
  }
  void read(const State& from) {
    const Message message = from.to_requester.front();
    // The requester may have no descriptor for HELLO. HELLO then waits in the socket, even after
    // the owner has hung up.
    if (message == Message::kHello && from.hung_up) end(from, Requester::kClosed);
    State state = from;
    state.to_requester.erase(state.to_requester.begin());
    if (message == Message::kRefused && !from.greeted) return turned_away(state);
    if (message == Message::kHello) state.greeted = true;
    if (message == Message::kAnswer) state.requester = Requester::kAnswered;
    enter(state);
  }
  void turned_away(State state) {
    const bool again = state.attempts < kMaxAttempts && !is(Mistake::kRefusalIsAnEnd);
    if (!again) return end(state, Requester::kOutOfMemory);
    state.requester = Requester::kPauses;
    enter(state);
    if (state.attempts > 1) end(state, Requester::kOutOfMemory);  // the time-out comes first
  }
  void end(State state, Requester how) {
    state.requester = how;
    enter(state);
  }

  void enter(const State& state) {
    moved_ = true;
    const Requester end = state.requester;
    expect(state.handled <= 1, "a request is handled twice");
    if (end == Requester::kAnswered) expect(state.handled == 1, "an answer to no request");
    if (end == Requester::kOutOfMemory) {
      expect(state.handled == 0, "what was handled is reported as a shortage");
      expect(state.attempts > 1, "one refusal is an end");
    }
    if (end == Requester::kClosed)
      expect(state.owner == Owner::kDead, "a living process is reported as an end");
    if (seen_.insert(state).second) todo_.push_back(state);
  }
  void expect(bool holds, const char* what) {
    if (!holds && violation_.empty()) violation_ = what;
  }
  bool is(Mistake mistake) const { return mistake_ == mistake; }

  const Mistake mistake_;
  std::set<State> seen_;
  std::vector<State> todo_;
  bool moved_ = false;
  std::string violation_;
};

TEST(EveryOrderOfBeingTurnedAway, handles_a_request_once_and_takes_no_shortage_for_an_end) {
  Model model(Mistake::kNone);
  EXPECT_EQ(model.explore(), "");
  EXPECT_GT(model.states(), 50U);
  RecordProperty("states", std::to_string(model.states()));
}

TEST(TurnedAwayModel, finds_each_of_the_mistakes_that_one_could_make) {
  const auto found = [](Mistake mistake) { return Model(mistake).explore(); };
  EXPECT_EQ(found(Mistake::kRefusesAfterHello), "a living process is reported as an end");
  EXPECT_EQ(found(Mistake::kHandlesBeforeHello), "a request is handled twice");
  EXPECT_EQ(found(Mistake::kEndIsDeath), "a living process is reported as an end");
  EXPECT_EQ(found(Mistake::kRefusalIsAnEnd), "one refusal is an end");
  EXPECT_EQ(found(Mistake::kOutOfTimeWhileAsked), "what was handled is reported as a shortage");
}

}  // namespace
}  // namespace tensorbus::bus::testing
