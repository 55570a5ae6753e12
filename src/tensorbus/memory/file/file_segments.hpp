#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::memory {

// The files that a participant has mapped and others may map, too, by reference: each has a number,
// beside those of the arena's segments, and what is mapped of it is one segment. A file is known
// for as long as somebody has it mapped here; then its number is retired. Thread-safe.
class FileSegments {
 public:
  SegmentId number_of(const std::shared_ptr<const MappedFile>& file);
  // Empty if it is not mapped any more.
  std::shared_ptr<const MappedFile> find(SegmentId number) const;
  // Those retired since the last call.
  std::vector<SegmentId> take_retired();
  // Is called when there is one, by the thread that unmapped the file; it must not call us.
  void on_retired(std::function<void()> listener);

 private:
  struct Registry {
    std::mutex mutex;
    std::map<SegmentId, std::weak_ptr<const MappedFile>> files;
    std::vector<SegmentId> retired;  // has room for every file that there is
    std::function<void()> listener;
    std::uint32_t next = 0;

    void retire(SegmentId number) noexcept;
  };
  class Unmapping;

  const std::shared_ptr<Registry> registry_ =
      std::make_shared<Registry>();  // a file may outlive us
};

}  // namespace tensorbus::memory
