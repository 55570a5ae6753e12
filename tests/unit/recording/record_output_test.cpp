// What a recorder writes, and how it is compressed.
#include "tensorbus/recording/record/record_output.hpp"

#include <gtest/gtest.h>

#include "tensorbus/recording/recording.hpp"
#include "tests/unit/tensor/recording_test_support.hpp"

namespace tensorbus::bus {
namespace {

using recording::Compression;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(RecordOutputTest, what_would_be_a_chunk_that_is_too_large_is_not_compressed) {
  const test::NamelessFile source;
  recording::RecordingWriter writer(source.path(), true, {});
  writer.add_message(test::message_of(writer.add_channel("topic", "", {}), 0, "pixels", "\xc0"));
  writer.finish();
  const test::NamelessFile file;
  RecordOutput output({.path = file.path(), .overwrite = true, .chunks = true});
  output.begin();
  RecordedSample sample{
      .publisher = std::make_shared<RecordedPublisher>(RecordedPublisher{"topic", "", {}}),
      .sample = Recording(source.path()).sample(0),
      .has_sample = true,
      .compression = Compression::kLz4};  // as in the file from which it is copied
  const auto write = [&](std::uint64_t bytes) {
    sample.bytes = bytes;  // that is what it says
    ++sample.log_time;
    output.stage(sample);
    output.commit();
  };
  write(1'000);
  write(kGiB - 1);
  output.finish();
  const Recording written(file.path());
  EXPECT_EQ(written.compression(0), Compression::kLz4);
  EXPECT_EQ(written.compression(1), Compression::kNone);
}

}  // namespace
}  // namespace tensorbus::bus
