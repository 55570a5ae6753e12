#pragma once

// Checks for every file that a reader of a format has accepted.

#include "fuzz/fuzz.hpp"
#include "tensorbus/platform/utf8.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

namespace tensorbus::fuzz {

// Runs `read`. Returns true if it accepted the file, false if it refused the file.
template <typename Read>
bool takes_file(Read read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    check(error.code() == Code::kInvalidArgument || error.code() == Code::kUnsupported);
    check(platform::is_utf8(error.what()));
    return false;
  }
}

// Checks that the tensors lie within the stated bytes of the contents.
inline void require_inside(const tensor::FileContents& contents) {
  for (const tensor::FilePlace& place : contents.tensors) {
    check(place.offset <= contents.bytes);
    if (!place.layout) continue;
    const ByteSpan span = span_of(*place.layout);
    check(span.begin == 0 && span.bytes() == place.layout->packed_bytes());
    check(span.bytes() <= contents.bytes - place.offset);
  }
}

}  // namespace tensorbus::fuzz
