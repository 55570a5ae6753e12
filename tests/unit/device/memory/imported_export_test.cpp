#include "tensorbus/device/memory/imported_export.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::device {
namespace {

constexpr std::uint32_t kLegacy = 1;
constexpr std::uint32_t kChunks = 2;
constexpr std::uint32_t kPool = 3;
const Id kOwner{{1}};

ExportPart allocation() { return {.kind = kLegacy, .bytes = 100, .handle = std::string(64, 'x')}; }
ExportPart chunk(std::uint32_t number, std::uint64_t bytes) {
  return {.kind = kChunks,
          .bytes = 12288,
          .chunk = number,
          .chunks = 3,
          .chunk_bytes = bytes,
          .fd = platform::create_sealed_memfd("x", 4096)};
}

using Change = std::function<void(ExportPart&)>;
bool refused(ExportPart part, const Change& change) {
  change(part);
  try {
    const ImportedExport borrowed(kOwner, false, std::move(part));
    return false;
  } catch (const Error& error) {
    return error.code() == Code::kProtocol;
  }
}
bool refuses(ImportedExport& borrowed, ExportPart next) {
  try {
    borrowed.add(std::move(next));
    return false;
  } catch (const Error& error) {
    return error.code() == Code::kProtocol;
  }
}

TEST(ImportedExport, is_an_allocation_that_makes_sense) {
  EXPECT_FALSE(refused(allocation(), [](ExportPart&) {}));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.kind = 0; }));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.kind = 4; }));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.bytes = 0; }));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.bytes = ~std::uint64_t{0}; }));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.handle.pop_back(); }));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.chunk = 1; }));
  EXPECT_TRUE(refused(allocation(), [](ExportPart& part) { part.chunks = 2; }));
  EXPECT_TRUE(refused(
      allocation(), [](ExportPart& part) { part.fd = platform::create_sealed_memfd("x", 4096); }));
}

TEST(ImportedExport, is_memory_of_a_pool_that_makes_sense) {
  const auto pooled = [] {
    ExportPart part = allocation();
    part.kind = kPool;
    part.fd = platform::create_sealed_memfd("x", 4096);
    return part;
  };
  EXPECT_FALSE(refused(pooled(), [](ExportPart&) {}));
  EXPECT_TRUE(refused(pooled(), [](ExportPart& part) { part.fd.reset(); }));
  EXPECT_TRUE(refused(pooled(), [](ExportPart& part) { part.handle.push_back('x'); }));
  EXPECT_TRUE(refused(pooled(), [](ExportPart& part) { part.handle.clear(); }));
  EXPECT_TRUE(refused(pooled(), [](ExportPart& part) { part.bytes = 0; }));
  EXPECT_TRUE(refused(pooled(), [](ExportPart& part) { part.chunks = 2; }));
}

TEST(ImportedExport, is_chunks_that_make_sense) {
  EXPECT_FALSE(refused(chunk(0, 4096), [](ExportPart&) {}));
  EXPECT_TRUE(refused(chunk(0, 4096), [](ExportPart& part) { part.fd.reset(); }));
  EXPECT_TRUE(refused(chunk(0, 4096), [](ExportPart& part) { part.handle = "x"; }));
  EXPECT_TRUE(refused(chunk(0, 4096), [](ExportPart& part) { part.chunks = 0; }));
  EXPECT_TRUE(refused(chunk(0, 4096), [](ExportPart& part) { part.chunks = 129; }));
  EXPECT_TRUE(refused(chunk(0, 4096), [](ExportPart& part) { part.chunks = 1; }));
  EXPECT_TRUE(refused(chunk(1, 4096), [](ExportPart&) {}));
  EXPECT_TRUE(refused(chunk(0, 0), [](ExportPart&) {}));
  EXPECT_TRUE(refused(chunk(0, 12288), [](ExportPart&) {}));
}

TEST(ImportedExport, takes_its_chunks_in_order_and_no_more_than_it_said) {
  ImportedExport borrowed(kOwner, false, chunk(0, 4096));
  EXPECT_TRUE(refuses(borrowed, chunk(2, 4096)));
  EXPECT_TRUE(refuses(borrowed, chunk(1, 8192))) << "nothing is left for the last";
  ExportPart other = chunk(1, 4096);
  other.bytes = 16384;
  EXPECT_TRUE(refuses(borrowed, std::move(other)));
  EXPECT_FALSE(refuses(borrowed, chunk(1, 4096)));
  EXPECT_EQ(borrowed.open(), nullptr) << "one is missing";
  EXPECT_TRUE(refuses(borrowed, chunk(2, 4095)));
  EXPECT_FALSE(refuses(borrowed, chunk(2, 4096)));
  EXPECT_EQ(borrowed.descriptors(), 3U);
  EXPECT_TRUE(refuses(borrowed, chunk(0, 4096))) << "all of it came";
}

TEST(ImportedExport, may_be_begun_anew_before_it_is_complete) {
  ImportedExport borrowed(kOwner, false, chunk(0, 4096));
  borrowed.add(chunk(1, 4096));
  borrowed.add(chunk(0, 8192));
  EXPECT_EQ(borrowed.descriptors(), 1U);
  EXPECT_FALSE(refuses(borrowed, chunk(1, 2048)));
}

}  // namespace
}  // namespace tensorbus::device
