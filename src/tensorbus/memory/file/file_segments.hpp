#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/segment_id.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {

// The files that a participant has mapped and can lend by reference. The mapped part of a file is
// one segment, with a number from a range of its own. The number is retired when the file is
// unmapped. Thread-safe.
class FileSegments {
 public:
  SegmentId number_of(const std::shared_ptr<const MappedFile>& file);
  // Returns the mapped bytes of all files.
  std::size_t bytes() const;
  // Returns null if the file is no longer mapped.
  std::shared_ptr<const MappedFile> find(SegmentId number) const;
  // Returns the numbers that were retired since the last call.
  std::vector<SegmentId> take_retired();
  // Sets a function that the unmapping thread calls after a number was retired. It must not call
  // this object.
  void on_retired(std::function<void()> listener);

 private:
  struct Registry {
    platform::Mutex mutex;
    std::map<SegmentId, std::weak_ptr<const MappedFile>> files TB_GUARDED_BY(mutex);
    // Has capacity for every file, so that retire() does not allocate.
    std::vector<SegmentId> retired TB_GUARDED_BY(mutex);
    std::function<void()> listener TB_GUARDED_BY(mutex);
    std::uint32_t next TB_GUARDED_BY(mutex) = 0;

    void retire(SegmentId number) noexcept;
  };
  class Unmapping;

  const std::shared_ptr<Registry> registry_ =
      std::make_shared<Registry>();  // a file may outlive this object
};

}  // namespace tensorbus::memory
