#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/recording/record/record_output.hpp"
#include "tensorbus/recording/recording.hpp"

namespace tensorbus::recording {

// The part of a recording that is copied.
struct RecordingPart {
  Recording recording;
  std::vector<std::string> topics{};  // none: all
  std::uint64_t begin_ns = 0;         // messages recorded from this time on, ns since 1970,
  std::uint64_t end_ns = UINT64_MAX;  // and before this time
};

// The new recording.
struct CopyOptions {
  std::string path;
  bool overwrite = false;
  // true: messages of compressed chunks are compressed in the same way, and other messages are not
  // compressed; `compression` applies only to the topics that it names. false: `compression`
  // applies to all messages.
  bool keep_compression = true;
  RecordCompression compression{};
};

struct CopiedMessages {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;       // of the new file
  std::uint64_t unreadable = 0;  // left out, because they are damaged
  std::string error{};           // of the first of them
};

// Writes the messages of all parts, and the reports of lost messages, to a new recording, in the
// order of their times. The kernel copies uncompressed bytes from file to file. Throws as
// RecordOutput does.
TENSORBUS_API CopiedMessages copy_messages(std::span<const RecordingPart> parts,
                                           const CopyOptions& options);

}  // namespace tensorbus::recording
