#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/mapped_file.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::memory {

// The files that a participant has mapped and others may map, too, by reference: each has a number,
// beside those of the arena's segments, and what is mapped of it is one segment. A file is known
// for as long as somebody has it mapped here. Thread-safe.
class FileSegments {
 public:
  static constexpr std::uint32_t kFirst = 0x80000000;  // the arena never comes so far
  static bool is_number(std::uint32_t segment) noexcept { return segment >= kFirst; }

  std::uint32_t number_of(const std::shared_ptr<const MappedFile>& file);
  // Empty if it is not mapped any more.
  std::shared_ptr<const MappedFile> find(std::uint32_t number) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<const MappedFile>> files_;
  std::uint32_t next_ = kFirst;
};

}  // namespace tensorbus::memory
