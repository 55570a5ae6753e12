#include "tensorbus/tensor/mcap/message_record.hpp"

#include <array>

#include "tensorbus/tensor/mcap/mcap.hpp"

namespace tensorbus::tensor::mcap {
namespace {

constexpr std::size_t kLargeBytes = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;
constexpr std::array<std::byte, kMaxZeros> kZeros{};
static_assert(kPage <= kMaxZeros);

// Returns the padding at byte `at` that aligns a run of this size.
std::size_t gap_before(std::uint64_t at, std::size_t run_bytes) {
  const std::size_t alignment = run_bytes >= kLargeBytes ? kPage : kLine;
  return (alignment - at % alignment) % alignment;
}

}  // namespace

std::span<const std::byte> zeros(std::size_t count) { return std::span(kZeros).first(count); }

MessageRecord lay_out(const OutgoingMessage& message, std::uint64_t begin) {
  const std::uint64_t data_at = begin + kRecordHead + kMessageHead;
  MessageRecord record{.head = message.head,
                       .begins = std::vector<std::uint64_t>(message.runs.size())};
  std::uint64_t at = data_at + head_bytes(record.head);
  for (std::size_t i = 0; i < record.begins.size(); ++i) {
    at += gap_before(at, message.runs[i].size());
    record.begins[i] = at - data_at;
    at += message.runs[i].size();
  }
  for (std::size_t i = 0; i < record.head.tensors.size(); ++i)
    if (message.run_of[i] < record.begins.size())
      record.head.tensors[i].offset += record.begins[message.run_of[i]];
  record.data_bytes = at - data_at;
  return record;
}

void encode_start(const OutgoingMessage& message, const MessageRecord& record,
                  std::vector<std::byte>& bytes) {
  RecordWriter out(bytes);
  out.begin(Opcode::kMessage);
  out.number(message.channel);
  out.number(static_cast<std::uint32_t>(record.head.sequence));
  out.number(message.log_time);
  out.number(message.publish_time);
  out.end(record.data_bytes);
  encode_head(record.head, bytes);
}

}  // namespace tensorbus::tensor::mcap
