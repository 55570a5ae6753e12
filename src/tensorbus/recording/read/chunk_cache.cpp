#include "tensorbus/recording/read/chunk_cache.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::recording {
namespace {

using tensor::mcap::UnpackedChunk;

constexpr std::size_t kMaxChunks = 4;

// Copied before it is unpacked, so that a process that writes to the file cannot change it.
std::vector<std::byte> content_at(std::span<const std::byte> file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < tensor::mcap::kRecordHead)
    tensor::mcap::refuse_record("its chunk does not lie in the file");
  tensor::mcap::RecordCursor cursor(file.subspan(offset));
  if (cursor.number<std::uint8_t>() != static_cast<std::uint8_t>(tensor::mcap::Opcode::kChunk))
    tensor::mcap::refuse_record("the file has changed: the chunk is not there");
  const auto length = cursor.number<std::uint64_t>();
  if (length > tensor::mcap::kMaxChunkBytes + tensor::mcap::kMaxChunkHead)
    tensor::mcap::refuse_record("a chunk of " + std::to_string(length) + " bytes is too large");
  const auto bytes = cursor.take(length);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::shared_ptr<const UnpackedChunk> ChunkCache::get(std::span<const std::byte> file,
                                                     std::uint64_t offset) {
  if (auto found = find(offset)) return found;
  auto fresh = std::make_shared<const UnpackedChunk>(content_at(file, offset));
  keep(offset, fresh);
  return fresh;
}

std::shared_ptr<const UnpackedChunk> ChunkCache::find(std::uint64_t offset) {
  if (!mutex_.try_lock()) return nullptr;
  const platform::MutexLock lock(mutex_, std::adopt_lock);
  const auto found = std::ranges::find(kept_, offset, &Kept::offset);
  if (found == kept_.end()) return nullptr;
  std::rotate(found, found + 1, kept_.end());
  return kept_.back().chunk;
}

void ChunkCache::keep(std::uint64_t offset, std::shared_ptr<const UnpackedChunk> chunk) {
  if (!mutex_.try_lock()) return;
  const platform::MutexLock lock(mutex_, std::adopt_lock);
  if (kept_.size() == kMaxChunks) kept_.erase(kept_.begin());
  kept_.push_back({offset, std::move(chunk)});
}

}  // namespace tensorbus::recording
