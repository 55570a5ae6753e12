#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// While a note lives, a write to its memory, which this process maps read-only, says on stderr
// which topic that memory was received from and how to get a tensor that can be written to. The
// process then ends by SIGSEGV, as it would have without us: PyTorch has no read-only tensors, so
// the fault is the first that anybody hears of such a write.
//
// The first note of a process puts a handler in front of the one it finds for SIGSEGV, and leaves
// it there; TENSORBUS_FAULT_MESSAGE=0, read at that moment, prevents that. Every fault is passed
// on to the handler that was found. One that the application installs later comes before ours: if
// it does not pass a fault on as it came, with its address, there is no message.
//
// Made and dropped in any thread and in forked children, but not in a signal handler.
class TENSORBUS_API ReadOnlyNote {
 public:
  // The characters of `topic` are not copied: the caller keeps them for as long as the note lives.
  ReadOnlyNote(std::span<const std::byte> memory, std::string_view topic) noexcept;
  ReadOnlyNote(const ReadOnlyNote&) = delete;
  ReadOnlyNote& operator=(const ReadOnlyNote&) = delete;
  ~ReadOnlyNote();

 private:
  friend class ReadOnlyNotes;  // all notes of the process, in write_fault.cpp

  const std::span<const std::byte> memory_;
  const std::string_view topic_;
  ReadOnlyNote* newer_ = nullptr;
  ReadOnlyNote* older_ = nullptr;
};

}  // namespace tensorbus::platform
