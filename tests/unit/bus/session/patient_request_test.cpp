// Requests that are given up: each ends once, and tells whether there was a shortage.

#include "tensorbus/bus/session/patient_request.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tests/fakes/fake_session.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

// The code of an error, or Reply::refused.
struct PatientAnswer {
  std::optional<Code> error;
  std::uint32_t refused = 0;
  bool operator==(const PatientAnswer&) const = default;
};
using PatientAnswers = std::vector<PatientAnswer>;
const PatientAnswer kEndedInTime{std::nullopt, link::Reply::kTimedOut};
const PatientAnswer kEndedByShortage{Code::kOutOfMemory, 0};

// A request of `honest` to a fake participant.
class GivenUp : public FakeLender {
 protected:
  ~GivenUp() override {
    in_turn([&] { request.reset(); });
  }

  template <typename Work>
  void in_turn(const Work& work) {
    EXPECT_TRUE(honest->context().loop.run_in_turn(work));
  }
  void begins() {
    in_turn([&] {
      request = PatientRequest::start(
          honest->context(), self, kLong,
          [this](const std::shared_ptr<PeerSession>& session, PeerSession::OnAnswer on_answer) {
            ++sent;
            session->call({}, link::QueueVerb::kState, 0, std::move(on_answer));
          },
          [this](PeerSession::Answer& answer) {
            const auto* const error = std::get_if<Error>(&answer);
            answers.push_back(error != nullptr
                                  ? PatientAnswer{error->code(), 0}
                                  : PatientAnswer{{}, std::get<link::Reply>(answer).refused});
          },
          "absent");
    });
  }
  // The participant reads what `event` sends before it gives up.
  template <typename Event>
  void gives_up_after(const Event& event) {
    in_turn([&] {
      event();
      honest->context().post([given = request](ParticipantContext&) { given->give_up(); });
    });
  }
  void gives_up() {
    in_turn([&] { request->give_up(); });
  }
  PatientAnswers answers_now() {
    PatientAnswers now;
    in_turn([&] { now = answers; });
    return now;
  }
  // Returns the answers when the request can get no more.
  PatientAnswers all_answers() {
    EXPECT_TRUE(eventually([&] { return !answers_now().empty(); }));
    const std::weak_ptr<PatientRequest> left = request;
    in_turn([&] { request.reset(); });
    EXPECT_TRUE(eventually([&] { return left.expired(); }));
    return answers_now();
  }
  void hang_up() { peer.reset(); }
  void refuse() { link::turn_away(peer->channel.fd(), "short of everything"); }
  // Fills the socket's backlog, so that `honest` cannot connect until make_room().
  void fill_backlog() {
    ASSERT_EQ(::listen(listener.get(), 0), 0);
    for (auto one = domain.connect(self); one.outcome == platform::Connect::kDone;
         one = domain.connect(self))
      waiting.push_back(std::move(one.socket));
  }
  void make_room() { ASSERT_EQ(::listen(listener.get(), SOMAXCONN), 0); }
  bus::Queue queue_of_it() {
    return bus::Queue::at(to_text({.server = self, .queue = {.number = 1, .key = 2}}), {}, honest);
  }
  static Outcome outcome_of_put(bus::Queue::Pending& put) {
    bus::Sample none;
    EXPECT_TRUE(eventually([&] { return put.answered(); }));
    return put.take(none);
  }

  std::shared_ptr<PatientRequest> request;  // in a turn only, like the other members
  PatientAnswers answers;
  int sent = 0;
  std::vector<platform::Fd> waiting;  // in the backlog
};

TEST_F(GivenUp, after_a_hang_up_ends_in_time) {
  begins();
  is_connected();
  gives_up_after([&] { hang_up(); });
  EXPECT_EQ(all_answers(), PatientAnswers{kEndedInTime});
  EXPECT_EQ(sent, 1);
}

TEST_F(GivenUp, after_a_refusal_ends_with_the_shortage) {
  begins();
  is_connected();
  gives_up_after([&] { refuse(); });
  EXPECT_EQ(all_answers(), PatientAnswers{kEndedByShortage});
  EXPECT_EQ(sent, 1);
}

TEST_F(GivenUp, after_a_refusal_and_a_hang_up_ends_in_time) {
  begins();
  is_connected();
  refuse();
  is_connected();
  gives_up_after([&] { hang_up(); });
  EXPECT_EQ(all_answers(), PatientAnswers{kEndedInTime});
  EXPECT_EQ(sent, 2);
}

TEST_F(GivenUp, before_a_hang_up_ends_in_time) {
  begins();
  is_connected();
  gives_up();
  EXPECT_EQ(answers_now(), PatientAnswers()) << "the other may reply";
  hang_up();
  EXPECT_EQ(all_answers(), PatientAnswers{kEndedInTime});
  EXPECT_EQ(sent, 1) << "it was not sent again";
}

TEST_F(GivenUp, before_a_refusal_ends_with_the_shortage) {
  begins();
  is_connected();
  gives_up();
  refuse();
  EXPECT_EQ(all_answers(), PatientAnswers{kEndedByShortage});
  EXPECT_EQ(sent, 1);
}

TEST_F(GivenUp, before_its_reply_gets_the_reply) {
  begins();
  is_connected();
  gives_up();
  peer->say_hello(self);
  ASSERT_EQ(peer->next(), ControlType::kQueue);
  peer->channel.send(link::Reply{.request = peer->received.as<link::QueueCall>().request});
  EXPECT_EQ(all_answers(), PatientAnswers{PatientAnswer{}});
}

TEST_F(GivenUp, after_its_reply_ends_no_more) {
  begins();
  is_connected();
  peer->say_hello(self);
  ASSERT_EQ(peer->next(), ControlType::kQueue);
  peer->channel.send(link::Reply{.request = peer->received.as<link::QueueCall>().request});
  EXPECT_TRUE(eventually([&] { return answers_now() == PatientAnswers{PatientAnswer{}}; }));
  gives_up();
  hang_up();
  EXPECT_EQ(all_answers(), PatientAnswers{PatientAnswer{}});
}

TEST_F(GivenUp, twice_ends_once) {
  for (const bool refused : {false, true}) {
    begins();
    is_connected();
    gives_up_after([&] {
      if (refused)
        refuse();
      else
        hang_up();
    });
    gives_up();
    EXPECT_EQ(all_answers(), PatientAnswers{refused ? kEndedByShortage : kEndedInTime});
    answers.clear();
  }
}

TEST_F(GivenUp, before_it_is_sent_is_not_sent) {
  fill_backlog();
  begins();
  gives_up();
  EXPECT_EQ(answers_now(), PatientAnswers());
  make_room();
  EXPECT_EQ(all_answers(), PatientAnswers{kEndedInTime});
  EXPECT_EQ(sent, 0);
}

TEST_F(GivenUp, and_dead_is_absent) {
  fill_backlog();
  begins();
  gives_up();
  listener.reset();
  EXPECT_EQ(all_answers(), PatientAnswers{PatientAnswer({Code::kClosed, 0})});
}

TEST_F(GivenUp, a_put_to_a_dying_process_times_out) {
  bus::Queue queue = queue_of_it();
  std::vector<std::uint64_t> words(8);
  bus::Queue::Pending put = queue.start_put({.tensors = {TensorView::of(words.data(), {8})}}, true);
  is_connected();
  put.request_cancel();
  hang_up();
  EXPECT_EQ(outcome_of_put(put), Outcome::kTimedOut);
}

TEST_F(GivenUp, a_put_and_a_get_that_are_not_sent_end) {
  fill_backlog();
  bus::Queue queue = queue_of_it();
  std::vector<std::uint64_t> words(8);
  bus::Queue::Pending put = queue.start_put({.tensors = {TensorView::of(words.data(), {8})}}, true);
  bus::Queue::Pending get = queue.start_get();
  get.cancel();
  put.request_cancel();
  make_room();
  EXPECT_EQ(outcome_of_put(put), Outcome::kTimedOut);
  others_go_on();
}

}  // namespace
}  // namespace tensorbus::bus
