#pragma once

// For tests only: recordings in files that have no names.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/tensor/mcap/recording_writer.hpp"

namespace tensorbus::test {

// An empty file, by the path under which it can be opened again.
class NamelessFile {
 public:
  NamelessFile() : fd_(::memfd_create("recording", MFD_CLOEXEC)) {}
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  std::string bytes() const {
    struct stat status{};
    if (::fstat(fd_.get(), &status) != 0) std::abort();
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    if (::pread(fd_.get(), bytes.data(), bytes.size(), 0) != status.st_size) std::abort();
    return bytes;
  }

 private:
  platform::Fd fd_;
};

inline std::span<const std::byte> span_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A message of one tensor of bytes, and fields. Both outlive it.
inline tensor::mcap::OutgoingMessage message_of(std::uint16_t channel, std::uint64_t sequence,
                                                std::string_view tensor, std::string_view fields) {
  tensor::mcap::OutgoingMessage message{
      .channel = channel,
      .log_time = 1'000 + sequence,
      .publish_time = 900 + sequence,
      .head = {.fingerprint = 7, .sequence = sequence, .fields = span_of_text(fields)}};
  const auto bytes = static_cast<std::int64_t>(tensor.size());
  message.head.tensors.push_back({Layout::contiguous(DType::kUInt8, {bytes}), 0});
  message.run_of = {tensor.empty() ? std::size_t{1} : std::size_t{0}};
  if (!tensor.empty()) message.runs.push_back(span_of_text(tensor));
  return message;
}

// Two channels, messages of several sizes, and some that were lost; without an end if `killed`.
inline std::string recorded(bool killed = false) {
  const NamelessFile file;
  tensor::mcap::RecordingWriter writer(file.path(), true, {{"version", "test"}});
  const std::uint16_t first = writer.add_channel("one", "robot.One\nlabel: str", {{"node", "n"}});
  const std::uint16_t second = writer.add_channel("two", "", {});
  const std::string tensor(300, 'x');
  writer.add_message(message_of(first, 0, tensor, "fields"));
  writer.commit();
  writer.add_lost({first, 1, 3, 1'003});
  writer.add_message(message_of(first, 4, "", ""));
  auto of_gpu = message_of(second, 9, std::string_view(tensor).substr(7), "more");
  of_gpu.head.tensors[0].published_on = Device::cuda(513);
  writer.add_message(of_gpu);
  writer.commit();
  if (!killed) writer.finish();
  return file.bytes();
}

// Forty messages, every second one compressed, in a file with chunks; without an end if `killed`.
inline std::string recorded_in_chunks(tensor::mcap::Compression how, bool killed = false) {
  const NamelessFile file;
  tensor::mcap::RecordingWriter writer(file.path(), true, {{"version", "test"}}, true);
  const std::uint16_t first = writer.add_channel("one", "robot.One\nlabel: str", {{"node", "n"}});
  const std::uint16_t second = writer.add_channel("two", "", {});
  std::string tensor;
  for (std::uint64_t i = 0; i < 40; ++i) {
    tensor.assign(300, static_cast<char>('a' + i % 26));
    const bool packed = i % 2 == 0;
    auto message = message_of(packed ? first : second, i, tensor, "fields");
    if (packed) message.compression = how;
    if (i == 20) writer.add_lost({second, 3, 2, 1'020});
    writer.add_message(message);
    writer.commit();
  }
  if (!killed) writer.finish();
  return file.bytes();
}

}  // namespace tensorbus::test
