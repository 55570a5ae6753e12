#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/recording/record/record_output.hpp"
#include "tensorbus/recording/recording.hpp"

namespace tensorbus {

// What of a recording goes into another one.
struct RecordingPart {
  Recording recording;
  std::vector<std::string> topics{};  // none: all
  std::uint64_t begin_ns = 0;         // recorded from then on, ns since 1970
  std::uint64_t end_ns = UINT64_MAX;  // and before then
};

// The new recording.
struct CopyOptions {
  std::string path;
  bool overwrite = false;
  // Messages of compressed chunks are compressed again in the same way, and others are not; but for
  // those of the topics that `compression` names. False: `compression` counts for all.
  bool keep_compression = true;
  bus::RecordCompression compression{};
};

struct CopiedMessages {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;       // of the new file
  std::uint64_t unreadable = 0;  // that were left out, because they are damaged
  std::string error{};           // of the first of them
};

// Writes the messages of all parts to a new recording, in the order of their times, with what is
// known to be lost among them. The bytes of what is not compressed go from file to file in the
// kernel. Throws as RecordOutput.
TENSORBUS_API CopiedMessages copy_messages(std::span<const RecordingPart> parts,
                                           const CopyOptions& options);

}  // namespace tensorbus
