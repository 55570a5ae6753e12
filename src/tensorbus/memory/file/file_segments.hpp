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

// The files that a participant has mapped and can lend by reference. Each has a number, in a range
// apart from the arena's segments; its mapped part is one segment. A file is known while it is
// mapped in this process; then its number is retired. Thread-safe.
class FileSegments {
 public:
  SegmentId number_of(const std::shared_ptr<const MappedFile>& file);
  // Returns the mapped bytes of all.
  std::size_t bytes() const;
  // Returns null if it is no longer mapped.
  std::shared_ptr<const MappedFile> find(SegmentId number) const;
  // Returns the numbers that were retired since the last call.
  std::vector<SegmentId> take_retired();
  // Sets a function that is called after a number was retired, by the thread that unmapped the
  // file. It must not call this object.
  void on_retired(std::function<void()> listener);

 private:
  struct Registry {
    platform::Mutex mutex;
    std::map<SegmentId, std::weak_ptr<const MappedFile>> files TB_GUARDED_BY(mutex);
    // Has room for every file that there is.
    std::vector<SegmentId> retired TB_GUARDED_BY(mutex);
    std::function<void()> listener TB_GUARDED_BY(mutex);
    std::uint32_t next TB_GUARDED_BY(mutex) = 0;

    void retire(SegmentId number) noexcept;
  };
  class Unmapping;

  const std::shared_ptr<Registry> registry_ =
      std::make_shared<Registry>();  // a file may outlive us
};

}  // namespace tensorbus::memory
