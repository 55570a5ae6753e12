#include "tensorbus/recording/read/chunk_cache.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::recording {
namespace {

// Its pages would become memory if it were copied.
TEST(ChunkCache, a_chunk_that_is_larger_than_any_is_refused_and_not_copied) {
  constexpr std::size_t kBytes = std::size_t{2} << 30;
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::vector<std::byte> head;
  tensor::mcap::RecordWriter out(head);
  out.begin(tensor::mcap::Opcode::kChunk);
  out.end(kBytes - tensor::mcap::kRecordHead);
  std::ranges::copy(head, static_cast<std::byte*>(mapped));
  ChunkCache cache;
  std::string why;
  try {
    (void)cache.get({static_cast<const std::byte*>(mapped), kBytes}, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    why = error.what();
  }
  EXPECT_NE(why.find("bytes is too large"), std::string::npos) << why;
  ::munmap(mapped, kBytes);
}

}  // namespace
}  // namespace tensorbus::recording
