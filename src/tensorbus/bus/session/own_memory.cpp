#include "tensorbus/bus/session/own_memory.hpp"

#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

link::PublishedRef own_memory(const ParticipantContext& context,
                              std::span<const link::BlockName> names, memory::Grant grant) {
  OneOrMany<memory::BlockRef> blocks;
  OneOrMany<memory::SegmentId> files;
  OneOrMany<std::shared_ptr<const void>> kept;
  for (const link::BlockName& name : names) {
    if (const auto file = context.arena->files().find(name.segment)) {
      if (grant == memory::Grant::kWrite && file->mode() != memory::MappedFile::Mode::kReadWrite)
        throw Error(Code::kPermission, "ACQUIRE.writable: this file is read-only");
      files.push_back(name.segment);
      kept.push_back(file);
      continue;
    }
    memory::BlockRef block = context.find_block(name.segment, name.offset, name.generation);
    if (!block) throw Error(Code::kClosed, "ACQUIRE.blocks: a block is gone");
    if (grant > block->max_grant())
      throw Error(Code::kPermission, "ACQUIRE.writable: this memory is read-only");
    blocks.push_back(std::move(block));
  }
  return std::make_shared<link::PublishedSample>(std::move(blocks), std::move(files),
                                                 std::move(kept));
}

}  // namespace tensorbus::bus
