// Every allocation of a recorder's commit fails once, and all from then on: what was written can be
// read, and nothing is written from memory that was let go.

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>

#include "failing_new.hpp"
#include "tensorbus/tensor/mcap/read_contents.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"
#include "tests/unit/tensor/mcap/recording_test_support.hpp"

namespace tensorbus::tensor::mcap {
namespace {

using testing::Fails;
using testing::Whose;

// Returns whether an allocation failed, the n-th one.
bool record_with_failure(Fails fails, std::size_t n) {
  const test::NamelessFile out;
  RecordingWriter writer(out.path(), true, {}, true);
  writer.add_message(test::message_of(writer.add_channel("first", "", {}), 0, "kept", ""));
  writer.commit();
  std::string gone(200'000, 'g');
  const OutgoingMessage plain = test::message_of(2, 1, gone, "fields");
  OutgoingMessage packed = test::message_of(2, 2, gone, "fields");
  packed.compression = Compression::kZstd;
  bool threw = false;
  testing::fail_allocation(Whose::kMine, fails, n);
  try {
    (void)writer.add_channel("second", "other.Type\nlabel: str", {});
    for (int i = 0; i < 6; ++i) {  // the sixth one completes a chunk
      writer.add_message(plain);
      writer.add_lost({1, 1, 3, 1'003});
      writer.add_message(packed);
    }
    writer.commit();
  } catch (const std::bad_alloc&) {
    threw = true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory) << error.what();
    threw = true;
  }
  const bool failed = testing::stop_failing();
  if (threw) writer.drop_staged();
  std::ranges::fill(gone, 'x');
  writer.finish();
  EXPECT_EQ(out.bytes().find("xxxxxxxx"), std::string::npos);
  const Contents contents = read_contents(test::Content(out.bytes()).bytes());
  EXPECT_EQ(contents.recovered, "");
  EXPECT_EQ(contents.damage, "");
  EXPECT_EQ(contents.messages.size(), writer.messages());
  EXPECT_GE(contents.messages.size(), 1U);
  if (!threw) {
    EXPECT_EQ(contents.messages.size(), 13U);
  }
  const std::string whole = out.bytes();
  const Contents found = read_contents(test::Content(whole.substr(0, whole.size() - 1)).bytes());
  EXPECT_EQ(found.damage, "");
  EXPECT_GE(found.messages.size(), contents.messages.size());
  return failed;
}

TEST(AllocationOfRecordings, that_fails_leaves_a_file_that_can_be_read) {
  for (const Fails fails : {Fails::kOnce, Fails::kFromThenOn}) {
    std::size_t n = 0;
    while (record_with_failure(fails, n)) {
      ASSERT_FALSE(::testing::Test::HasFailure()) << "allocation " << n;
      ++n;
    }
    EXPECT_GT(n, 20U);
  }
}

}  // namespace
}  // namespace tensorbus::tensor::mcap
