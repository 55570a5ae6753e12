// Publishers and subscribers in two processes.

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// Receives what `publishes_to_another_process` sends, checks it, and answers on "answers".
int receive_frames(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Subscriber subscriber("frames", {}, participant);
  const auto bare = subscriber.receive(kLong);
  REQUIRE_IN_ROLE(bare && is_filled(bare->tensor().as<float>(), 1));
  REQUIRE_IN_ROLE(bare->header().sequence == 0 && bare->header().topic == "frames");
  REQUIRE_IN_ROLE(bare->field_bytes().empty() && bare->fields() == Value());

  const auto named = subscriber.receive(kLong);
  REQUIRE_IN_ROLE(named && named->fields().at("id").as<std::int64_t>() == 7);
  REQUIRE_IN_ROLE(is_filled(named->tensor("image").as<float>(), 2));
  REQUIRE_IN_ROLE(named->header().timestamp_ns >= bare->header().timestamp_ns);

  Publisher answers("answers", {}, participant);
  REQUIRE_IN_ROLE(answers.wait_for_subscribers(1, kLong) == Outcome::kDone);
  const Tensor& tensor = bare->tensor();  // goes on by reference
  answers.publish(TensorView{tensor.data(), tensor.layout()});
  REQUIRE_IN_ROLE(answers.stats().bytes_copied == 0);
  REQUIRE_IN_ROLE(eventually([&] { return answers.subscribers() == 0; }));
  return 0;
}
const bool kReceives = add_role("receive_frames", receive_frames);

TEST(TwoProcesses, hand_tensors_to_each_other_by_reference) {
  const FreshDomain domain;
  const Participant participant = domain.join();
  Publisher publisher("frames", {}, participant);
  std::optional<Subscriber> answers(std::in_place, "answers", SubscriberOptions(), participant);
  Process other("receive_frames", {domain.path()});
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const Published first = publisher.publish(filled_loan(publisher, 1));
  EXPECT_EQ(first.outcome, Outcome::kDone);
  EXPECT_EQ(first.subscribers, 1U);
  const Loan loan = filled_loan(publisher, 2);
  EXPECT_EQ(
      publisher.publish(Value::Map{{"image", TensorIndex{0}}, {"id", 7}}, {loan.view()}).sequence,
      1U);
  const auto answer = answers->receive(kLong);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(is_filled(answer->tensor().as<float>(), 1));
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
  answers.reset();
  EXPECT_EQ(other.wait(), 0);
}

int hold_a_sample(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Subscriber subscriber("frames", {}, participant);
  const auto sample = subscriber.receive(kLong);
  REQUIRE_IN_ROLE(sample.has_value());
  Publisher held("held", {}, participant);
  REQUIRE_IN_ROLE(held.wait_for_subscribers(1, kLong) == Outcome::kDone);
  std::this_thread::sleep_for(kLong);  // killed long before
  return 1;
}
const bool kHolds = add_role("hold_a_sample", hold_a_sample);

TEST(TwoProcesses, one_that_is_killed_gives_back_what_it_held) {
  const FreshDomain domain;
  const Participant participant = domain.join();
  Publisher publisher("frames", {}, participant);
  Subscriber held("held", {}, participant);
  Process other("hold_a_sample", {domain.path()});
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publisher.publish(filled_loan(publisher, 1));
  ASSERT_EQ(held.wait_for_publishers(1, kLong), Outcome::kDone);
  EXPECT_GT(publisher.stats().bytes_in_flight, 0U);
  other.kill();
  EXPECT_TRUE(eventually([&] { return publisher.stats().bytes_in_flight == 0; }));
}

int share_and_leave(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Subscriber subscriber("handles", {}, participant);
  const auto line = subscriber.receive(kLong);
  REQUIRE_IN_ROLE(line.has_value());
  const Handle handle = Handle::parse(line->fields().as<std::string>());
  const Sample attached =
      attach(handle, {.access = Access::kShared, .timeout = kLong}, participant);
  REQUIRE_IN_ROLE(is_filled(attached.tensor().as<float>(), 5));
  attached.tensor().as_mutable<float>()[0] = 9;
  return 0;
}
const bool kShares = add_role("share_and_leave", share_and_leave);

TEST(TwoProcesses, write_to_what_one_of_them_shares) {
  const FreshDomain domain;
  const Participant participant = domain.join();
  const Loan memory = empty(Layout::contiguous(DType::kFloat32, {1000}), true, participant);
  fill(memory.as<float>(), 5);
  EXPECT_TRUE(is_shared(memory.data(), 4000, participant));
  Shared shared = share({.tensors = {memory.view()}}, {.uses = 1, .shared = true}, participant);
  Publisher handles("handles", {}, participant);
  Process other("share_and_leave", {domain.path()});
  ASSERT_EQ(handles.wait_for_subscribers(1, kLong), Outcome::kDone);
  handles.publish(Value(shared.handle().text()), {});
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(memory.as<float>()[0], 9);
  EXPECT_FALSE(shared.open());
}

int work(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  Queue jobs = Queue::open("jobs", kLong, {}, participant);
  Queue results = Queue::open(arguments.at(1), kLong, {}, participant);
  REQUIRE_IN_ROLE(!jobs.made_here() && jobs.options().name == "jobs");
  Sample job;
  while (jobs.get(job, kLong) == Outcome::kDone) {
    const Tensor tensor = job.tensor();
    job = Sample();  // the tensor keeps what it needs
    const float sum[] = {tensor.as<float>()[0] + tensor.as<float>()[1]};
    REQUIRE_IN_ROLE(results.put({.tensors = {TensorView::of(sum, {1})}}) == Outcome::kDone);
    jobs.task_done();
  }
  return 0;
}
const bool kWorks = add_role("work", work);

TEST(TwoProcesses, share_work_through_queues) {
  const FreshDomain domain;
  const Participant participant = domain.join();
  Queue jobs({.maxsize = 2, .name = "jobs"}, participant);
  Queue results({}, participant);
  Process worker("work", {domain.path(), results.address()});
  for (float i = 0; i < 5; ++i) {
    const float job[] = {i, 10};
    ASSERT_EQ(jobs.put({.tensors = {TensorView::of(job, {2})}}, kLong), Outcome::kDone);
  }
  for (float i = 0; i < 5; ++i) {
    Sample result;
    ASSERT_EQ(results.get(result, kLong), Outcome::kDone);
    EXPECT_EQ(result.tensor().as<float>()[0], i + 10);
  }
  EXPECT_EQ(jobs.join(kLong), Outcome::kDone);
  EXPECT_EQ(jobs.stats().unfinished, 0U);
  jobs.close();
  EXPECT_EQ(worker.wait(), 0);
}

}  // namespace
}  // namespace tensorbus
