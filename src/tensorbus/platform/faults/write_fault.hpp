#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/faults/address_list.hpp"

namespace tensorbus::platform {

// While a note lives, a write to its memory, which this process maps read-only, says on stderr
// where that memory comes from and how to get a tensor that can be written to. The process then
// ends by SIGSEGV, as it would have without us: PyTorch has no read-only tensors, so the fault is
// the first that anybody hears of such a write.
//
// The first note of a process puts a handler in front of the one it finds for SIGSEGV, and leaves
// it there (see ChainedHandler); TENSORBUS_FAULT_MESSAGE=0, read at that moment, prevents that.
// Every fault is passed on to the handler that was found.
//
// Made and dropped in any thread and in forked children, but not in a signal handler.
class TENSORBUS_API ReadOnlyNote {
 public:
  enum class From { kTopic, kFile };

  // The characters of `name`, a topic or a path, are not copied: the caller keeps them for as long
  // as the note lives.
  ReadOnlyNote(std::span<const std::byte> memory, std::string_view name,
               From from = From::kTopic) noexcept;
  ReadOnlyNote(const ReadOnlyNote&) = delete;
  ReadOnlyNote& operator=(const ReadOnlyNote&) = delete;
  ~ReadOnlyNote();

  std::string_view name() const noexcept { return name_; }
  From from() const noexcept { return from_; }

 private:
  friend class AddressList<ReadOnlyNote>;

  AddressLink<ReadOnlyNote> link_;
  const std::string_view name_;
  const From from_;
};

}  // namespace tensorbus::platform
