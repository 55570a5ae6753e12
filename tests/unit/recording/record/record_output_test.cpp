// What a recorder writes, and how it is compressed.
#include "tensorbus/recording/record/record_output.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/recording/recording.hpp"
#include "tests/unit/tensor/mcap/recording_test_support.hpp"

namespace tensorbus::recording {
namespace {

using tensor::mcap::Compression;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

// Writes messages that are as large as they say, whatever is in them.
class Output {
 public:
  explicit Output(RecordOutputOptions options) : output_(with_path(std::move(options))) {
    tensor::mcap::RecordingWriter writer(source_.path(), true, {});
    writer.add_message(test::message_of(writer.add_channel("topic", "", {}), 0, "pixels", "\xc0"));
    writer.finish();
    output_.begin();
  }
  void write(std::uint64_t bytes, const std::string& topic = "topic",
             std::optional<Compression> as = {}) {
    RecordedSample sample{
        .publisher = std::make_shared<RecordedPublisher>(RecordedPublisher{topic, "", {}}),
        .sample = recording::Recording(source_.path()).sample(0),
        .has_sample = true,
        .bytes = bytes,
        .log_time = ++time_,
        .compression = as};
    output_.stage(sample);
    output_.commit();
  }
  recording::Recording finished() {
    output_.finish();
    return recording::Recording(file_.path());
  }
  std::vector<std::string> uncompressed() const { return output_.uncompressed(); }

 private:
  RecordOutputOptions with_path(RecordOutputOptions options) const {
    options.path = file_.path();
    options.overwrite = true;
    return options;
  }

  const test::NamelessFile source_;
  const test::NamelessFile file_;
  RecordOutput output_;
  std::uint64_t time_ = 0;
};

TEST(RecordOutputTest, what_would_be_a_chunk_that_is_too_large_is_not_compressed) {
  Output output({.path = {}, .chunks = true});
  output.write(1'000, "topic", Compression::kLz4);  // as in the file from which it is copied
  output.write(kGiB - 1, "topic", Compression::kLz4);
  const recording::Recording written = output.finished();
  EXPECT_EQ(written.compression(0), Compression::kLz4);
  EXPECT_EQ(written.compression(1), Compression::kNone);
  EXPECT_TRUE(output.uncompressed().empty());  // nothing was asked for
}

TEST(RecordOutputTest, topics_that_are_not_compressed_whole_are_named_with_the_reason) {
  Output output({.path = {},
                 .compression = record_compression(
                     "lz4", {{"named", "zstd"}, {"never", ""}, {"nothing", "lz4"}})});
  for (const std::uint64_t bytes : {kMiB - 1, kMiB, kMiB + 1}) output.write(bytes, "image");
  for (const std::uint64_t bytes : {kMiB, kGiB / 2}) output.write(bytes, "named");
  output.write(kMiB, "never");
  output.write(1'000, "small");
  EXPECT_EQ(output.uncompressed(),
            (std::vector<std::string>{
                "compress: nothing was recorded on topic 'nothing'",
                "compress: topic 'image': 2 messages of 1 MiB or more were not compressed: name "
                "the topic to compress them (image=lz4)",
                "compress: topic 'named': 1 messages of 512 MiB or more were not compressed: they "
                "are too large"}));
}

}  // namespace
}  // namespace tensorbus::recording
