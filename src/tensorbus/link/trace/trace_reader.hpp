#pragma once

#include <cstdint>
#include <vector>

#include "tensorbus/link/trace/trace_record.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"

namespace tensorbus::link {

// The tracer's end of a ring that another process writes. It treats the content as untrusted input.
// Used by one thread.
class TraceReader {
 public:
  // Throws Error(kProtocol) unless the descriptor is a sealed memfd of the size of a ring.
  explicit TraceReader(const platform::Fd& memfd);

  // Appends the records written since the last call: at most as many as a ring has. A record that
  // is being written is read again in the next call.
  void read(std::vector<TraceRecord>& records);
  // Returns how many records were overwritten before they were read.
  std::uint64_t overwritten() const noexcept { return overwritten_; }
  // Returns how many records were begun and are not complete yet.
  std::size_t incomplete() const noexcept { return incomplete_.size(); }

 private:
  bool read_one(std::uint64_t index, std::vector<TraceRecord>& records) const;

  const platform::Mapping mapping_;
  std::uint64_t next_ = 0;  // the index of the next record
  std::uint64_t overwritten_ = 0;
  std::vector<std::uint64_t> incomplete_;  // indices, at most kTraceRecords
};

}  // namespace tensorbus::link
