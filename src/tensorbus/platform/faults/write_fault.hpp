#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/faults/address_list.hpp"

namespace tensorbus::platform {

// Explains a write to memory that this process maps read-only. While a note exists, a write to its
// memory prints on stderr which topic or file the memory comes from, and how to get a writable
// tensor. The process then ends by SIGSEGV, as it does without the note. PyTorch has no read-only
// tensors, so the fault is the first sign of this mistake.
//
// The first note of a process installs a handler in front of the existing SIGSEGV handler, and
// leaves it there (see ChainedHandler). With TENSORBUS_FAULT_MESSAGE=0, notes install no handler,
// and no message is printed. Every fault that no CopyOnWrite resolves is passed on to the existing
// handler.
//
// Made and destroyed in any thread and in forked children, but not in a signal handler.
class TENSORBUS_API ReadOnlyNote {
 public:
  enum class From { kTopic, kFile };

  // The characters of `name`, a topic or a path, are not copied: they outlive the note.
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
