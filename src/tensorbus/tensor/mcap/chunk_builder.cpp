#include "tensorbus/tensor/mcap/chunk_builder.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/tensor/mcap/crc32.hpp"
#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::tensor::mcap {

void ChunkBuilder::add(const OutgoingMessage& message) {
  if (empty()) begun_ = std::chrono::steady_clock::now();
  const std::size_t begin = records_.size();
  const MessageRecord record = lay_out(message, begin);
  try {
    encode_start(message, record, records_);
    for_each_piece(message, record, [this](std::span<const std::byte> piece) {
      records_.insert(records_.end(), piece.begin(), piece.end());
    });
    entries_.push_back({.bytes = kMessageHead + record.data_bytes,
                        .log_time = message.log_time,
                        .channel = message.channel,
                        .kind = MessageEntry::kPacked,
                        .in_chunk = static_cast<std::uint32_t>(begin)});
  } catch (...) {
    records_.resize(begin);
    throw;
  }
}

ChunkPlace ChunkBuilder::finish(std::uint64_t at, std::vector<std::byte>& bytes,
                                std::vector<MessageEntry>& entries) {
  std::vector<std::byte> packed;
  compress(how_, records_, packed);
  ChunkPlace place{.head = head_of(entries_, how_)};
  place.head.bytes = records_.size();
  place.head.crc = crc32(records_);
  place.head.stored_bytes = packed.size();
  const std::size_t begin = bytes.size();
  encode_chunk(place.head, bytes);
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  place.record = {at, bytes.size() - begin};
  encode_message_indexes(times_of(entries_, 0), at + place.record.bytes, place, bytes);
  for (MessageEntry& entry : entries_) entry.offset = at;
  entries = std::exchange(entries_, {});
  records_.clear();
  return place;
}

MessageTimes times_of(std::span<const MessageEntry> entries, std::uint64_t begin) {
  MessageTimes times;
  for (const MessageEntry& entry : entries)
    times[entry.channel].emplace_back(entry.log_time,
                                      entry.is_packed() ? entry.in_chunk : entry.offset - begin);
  return times;
}

ChunkHead head_of(std::span<const MessageEntry> entries, Compression how) {
  if (entries.empty()) return {.compression = how};
  const auto [first, last] = std::ranges::minmax_element(entries, {}, &MessageEntry::log_time);
  return {.first_time = first->log_time, .last_time = last->log_time, .compression = how};
}

}  // namespace tensorbus::tensor::mcap
