// Topics to a file, and what is in one.

#include <fstream>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class ARecording : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  RecorderOptions options(const std::string& name) const {
    return {.path = path(name),
            .topics = {"numbers", "poses"},
            .reliable = true,
            .domain = domain.path()};
  }
  // Records ten messages on each of two topics.
  void publish_all() {
    Publisher numbers("numbers", {.reliable = true}, participant);
    Publisher poses("poses", {.reliable = true}, participant);
    ASSERT_EQ(numbers.wait_for_subscribers(1, kLong), Outcome::kDone);
    ASSERT_EQ(poses.wait_for_subscribers(1, kLong), Outcome::kDone);
    for (std::int64_t i = 0; i < 10; ++i) {
      Loan loan = numbers.loan<float>({1000});
      fill(loan.as<float>(), static_cast<float>(i));
      numbers.publish(std::move(loan));
      poses.publish(Value::Map{{"id", i}}, {});
    }
  }
  static void require_all(const Recording& recording) {
    EXPECT_EQ(recording.recovered(), "");
    EXPECT_EQ(recording.damage(), "");
    ASSERT_EQ(recording.size(), 20U);
    const auto numbers = recording.select({"numbers"});
    const auto poses = recording.select({"poses"});
    ASSERT_EQ(numbers.size(), 10U);
    ASSERT_EQ(poses.size(), 10U);
    for (std::size_t i = 0; i < 10; ++i) {
      const Sample sample = recording[numbers[i]];
      EXPECT_TRUE(is_filled(sample.tensor().as<float>(), static_cast<float>(i)));
      EXPECT_EQ(sample.header().sequence, i);
      EXPECT_EQ(sample.header().topic, "numbers");
      EXPECT_EQ(recording[poses[i]].fields().at("id").as<std::int64_t>(),
                static_cast<std::int64_t>(i));
    }
  }

  const FreshDomain domain;
  const FreshDomain folder;
  Participant participant = domain.join();
};

// A reference into the temporary sample would dangle.
TEST_F(ARecording, gives_tensors_that_outlive_a_temporary_sample) {
  static_assert(std::is_same_v<decltype(std::declval<const Sample&>().tensor()), const Tensor&>);
  static_assert(std::is_same_v<decltype(std::declval<Content>().tensor("key")), Tensor>);
  Recorder recorder(options("run.mcap"));
  publish_all();
  recorder.close();
  const Recording recording(path("run.mcap"));
  const std::size_t third = recording.select({"numbers"})[2];
  const Tensor& tensor = recording[third].tensor();
  EXPECT_TRUE(is_filled(tensor.as<float>(), 2));
  for (const Tensor& each : recording[third].tensors()) EXPECT_TRUE(is_filled(each.as<float>(), 2));
}

TEST_F(ARecording, has_what_was_published) {
  Recorder recorder(options("run.mcap"));
  publish_all();
  recorder.close();
  recorder.close();
  const RecorderStats stats = recorder.stats();
  EXPECT_EQ(stats.messages, 20U);
  EXPECT_EQ(stats.lost, 0U);
  EXPECT_EQ(stats.topics, 2U);
  EXPECT_EQ(stats.files, 1U);
  EXPECT_EQ(stats.error, "");
  const Recording recording(path("run.mcap"));
  require_all(recording);
  EXPECT_NE(recording.about("version"), "");
  EXPECT_EQ(recording.about("nothing"), "");
  const auto topics = recording.topics();
  ASSERT_EQ(topics.size(), 2U);
  EXPECT_EQ(topics[0].name, "numbers");
  EXPECT_EQ(topics[0].messages, 10U);
  EXPECT_EQ(topics[0].publishers, 1U);
  EXPECT_TRUE(topics[0].types.empty());
  EXPECT_EQ(topics[0].begin_ns, recording.time_ns(recording.select({"numbers"}).front()));
  EXPECT_EQ(topics[1].end_ns, recording.time_ns(recording.select({"poses"}).back()));
  recording.check();
}

TEST_F(ARecording, may_be_compressed) {
  RecorderOptions compressed = options("run.mcap");
  compressed.compress = "zstd";
  compressed.compress_topics = {{"numbers", "lz4"}};
  Recorder recorder(compressed);
  publish_all();
  recorder.close();
  EXPECT_LT(recorder.stats().bytes, 20'000U);
  require_all(Recording(path("run.mcap")));
}

TEST_F(ARecording, selects_by_topic_and_time) {
  Recorder recorder(options("run.mcap"));
  publish_all();
  recorder.close();
  const Recording recording(path("run.mcap"));
  EXPECT_EQ(recording.select().size(), 20U);
  const auto some = recording.select({}, recording.time_ns(3), recording.time_ns(7));
  EXPECT_EQ(some, (std::vector<std::uint32_t>{3, 4, 5, 6}));
  EXPECT_TRUE(recording.select({"nothing"}).empty());
  EXPECT_EQ(code_of([&] { (void)recording[20]; }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)recording.time_ns(20); }), Code::kInvalidArgument);
}

TEST_F(ARecording, outlives_its_file_and_lends_it) {
  Recorder recorder(options("run.mcap"));
  publish_all();
  recorder.close();
  Tensor tensor;
  {
    const Recording recording(path("run.mcap"));
    tensor = recording[recording.select({"numbers"})[3]].tensor();
  }
  ASSERT_TRUE(std::filesystem::remove(path("run.mcap")));
  EXPECT_TRUE(is_filled(tensor.as<float>(), 3.F));
  Publisher publisher("again", {}, participant);
  Subscriber subscriber("again", {}, participant);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publisher.publish(tensor.view());
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_TRUE(is_filled(sample->tensor().as<float>(), 3.F));
  EXPECT_EQ(publisher.stats().bytes_copied, 0U);
}

TEST_F(ARecording, snapshots_are_files_of_their_own) {
  RecorderOptions kept = options("run.mcap");
  kept.snapshot_time = 3600s;
  Recorder recorder(kept);
  publish_all();
  // All: each counts 512 bytes beside its own, of which poses have a few.
  constexpr std::uint64_t kTensors = 10 * 4000;
  ASSERT_TRUE(eventually([&] { return recorder.stats().buffered_bytes > kTensors + 20 * 512; }));
  std::string file;
  EXPECT_EQ(recorder.snapshot(file, kLong), Outcome::kDone);
  EXPECT_EQ(file, path("run-0001.mcap"));
  require_all(Recording(file));
  recorder.close();
  EXPECT_EQ(recorder.snapshot(file, kLong), Outcome::kClosed);
  Recorder all(options("all.mcap"));
  EXPECT_EQ(code_of([&] { (void)all.snapshot(file); }), Code::kInvalidArgument);
  EXPECT_EQ(all.wait(0ns), Outcome::kTimedOut);
  EXPECT_EQ(all.wait(kLong, [] { return true; }), Outcome::kInterrupted);
}

TEST_F(ARecording, files_that_are_none_and_options_are_refused) {
  std::ofstream(path("text.mcap")) << "this is no recording";
  EXPECT_EQ(code_of([&] { Recording(path("text.mcap")); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { Recording(path("nowhere.mcap")); }), Code::kSystem);
  EXPECT_EQ(code_of([&] { Recorder(options("text.mcap")); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { Recorder({.path = path("run.mcap")}); }), Code::kInvalidArgument);
  RecorderOptions wrong = options("run.mcap");
  wrong.compress = "bz2";
  EXPECT_EQ(code_of([&] { Recorder recorder(wrong); }), Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path("run.mcap")));
}

TEST_F(ARecording, that_was_moved_from_says_so) {
  Recorder from(options("run.mcap"));
  Recorder to = std::move(from);
  std::string file;
  EXPECT_EQ(code_of([&] { from.close(); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)from.stats(); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)from.wait(0ns); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)from.snapshot(file); }), Code::kClosed);
  to.close();
  Recording recording(path("run.mcap"));
  const Recording other = std::move(recording);
  EXPECT_EQ(code_of([&] { (void)recording.size(); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)recording[0]; }), Code::kClosed);
  EXPECT_EQ(other.size(), 0U);
}

}  // namespace
}  // namespace tensorbus
