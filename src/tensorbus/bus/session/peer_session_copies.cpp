// Serves peers that cannot use a device: lends copies of its memory in host memory.

#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxStaging = 4096;  // open requests of one peer

}  // namespace

void PeerSession::on(const link::Stage& asked) {
  platform::kill_point("stage.received");
  serve(asked.request, [&] {
    const memory::BlockRef block =
        asked.block.segment.on_device()
            ? context_.find_block(asked.block.segment, asked.block.offset, asked.block.generation)
            : memory::BlockRef();
    if (!block) throw Error(Code::kClosed, "STAGE.block: the block is gone");
    const std::uint64_t rest = block->bytes() - (asked.block.offset - block->offset());
    if (asked.bytes == 0 || asked.bytes > rest)
      throw Error(Code::kInvalidArgument,
                  "STAGE.bytes: " + std::to_string(asked.bytes) + " of " + std::to_string(rest));
    if (staging_ >= kMaxStaging)
      throw Error(Code::kOutOfMemory, "too many requests at once for copies of device memory");
    ++staging_;
    try {
      context_.host_copies->copy(
          {block, asked.block.offset, asked.bytes},
          [weak = weak_from_this(), request = asked.request](const auto& copied) {
            if (const auto self = weak.lock()) self->lend_copy(request, copied);
          });
    } catch (...) {
      --staging_;
      throw;
    }
  });
}

void PeerSession::lend_copy(std::uint32_t request, const device::HostCopies::Result& result) {
  if (ended_) return;
  do_or_deny(request, [&] {
    if (const auto* error = std::get_if<Error>(&result)) throw Error(*error);
    const auto& copied = std::get<device::HostCopies::Copied>(result);
    require_room_for_a_lease();
    segments_->ensure_sent(copied.block->segment(), memory::Grant::kRead);
    const link::Staged answer{
        .request = request,
        .token = next_token_++,
        .copy = {copied.block->segment(), copied.offset, copied.block->generation()},
        .device = static_cast<std::uint32_t>(copied.device)};
    OneOrMany<memory::BlockRef> blocks;
    blocks.push_back(copied.block);
    OneOrMany<std::shared_ptr<const void>> kept;
    kept.push_back(copied.use);
    lent_.emplace(answer.token,
                  std::make_shared<link::PublishedSample>(
                      std::move(blocks), OneOrMany<memory::SegmentId>(), std::move(kept)));
    try {
      peer_memory_->channel->send(answer);
    } catch (...) {
      lent_.erase(answer.token);
      throw;
    }
    platform::kill_point("staged.sent");
  });
  --staging_;
}

}  // namespace tensorbus::bus
