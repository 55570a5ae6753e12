#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tensorbus/values/recorded.hpp>
#include <vector>

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/mcap/compression.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::link {
struct Source;
}

namespace tensorbus::recording {

class ChunkCache;

// A mapped file that a Recorder has written. Tensors of its samples lie in the mapping, which stays
// as long as they are held; publish() and share() lend them by reference. Tensors of compressed
// chunks lie in memory of the process. Immutable except for its cache of chunks, and usable in any
// thread and in forked children. A copy refers to the same recording.
class TENSORBUS_API Recording {
 public:
  // Opens the file. A file without an index at its end is searched. Throws Error, whose text names
  // the file and the fault: kInvalidArgument, kUnsupported (a library is missing), kPermission,
  // kOutOfMemory, kSystem.
  explicit Recording(const std::string& path);

  const tensor::mcap::Contents& contents() const noexcept { return *contents_; }
  const memory::MappedFile& file() const noexcept { return *file_; }
  // Returns the message with this number, in the order of their times. Throws
  // Error(kInvalidArgument) if there is none, or if it is damaged (the text describes the damage);
  // Error(kUnsupported) if another program wrote it.
  bus::Sample sample(std::size_t index) const;
  // Returns the compression of the chunk that contains this message. Throws as sample() does.
  tensor::mcap::Compression compression(std::size_t index) const;
  std::vector<RecordedTopic> topics() const;  // sorted by name
  // Returns the numbers of the messages on these topics (none: all), recorded from `begin` to
  // before `end`.
  std::vector<std::uint32_t> select(const std::vector<std::string>& topics, std::uint64_t begin,
                                    std::uint64_t end) const;

 private:
  bus::Sample sample_at(const tensor::mcap::MessageEntry& entry) const;
  bus::Sample sample_in(std::span<const std::byte> records, std::uint64_t at,
                        const tensor::mcap::MessageEntry& entry,
                        const std::shared_ptr<const void>& keeper) const;

  std::shared_ptr<memory::MappedFile> file_;
  std::shared_ptr<const tensor::mcap::Contents> contents_;
  std::map<std::uint16_t, std::shared_ptr<const link::Source>> sources_;  // of channels
  std::shared_ptr<ChunkCache> chunks_;
};

}  // namespace tensorbus::recording
