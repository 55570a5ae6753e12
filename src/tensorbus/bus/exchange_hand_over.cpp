// What is asked of the heir of a participant that is dead.
#include <algorithm>
#include <chrono>
#include <string>

#include "tensorbus/bus/exchange.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::chrono::milliseconds kLookAgain{2};
constexpr std::size_t kMostWaiting = 4096;  // requests of one peer

Error not_here() {
  return {Code::kClosed, "HAND_OVER.segment: it is not here, or its owner lives"};
}

}  // namespace

void Exchange::on_hand_over(const link::HandOver& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "HAND_OVER.writable");
  serve(asked.request, [&] {
    if (memory::CudaMemory::is_number(asked.segment)) return hand_over_device_memory(asked);
    for (const auto& left : surroundings_.estate_of(asked.owner)) {
      if (!left->segments_for(grant).find(asked.segment)) continue;
      memory::BorrowedSegments::Handed handed = left->segments_for(grant).hand_on(asked.segment);
      std::vector<platform::Fd> fds;
      fds.push_back(std::move(handed.fd));
      link::Handed answer{asked.request, handed.bytes, handed.file ? 1U : 0U, 0, {}};
      if (handed.file) answer.offset = handed.file->offset;
      if (handed.file) answer.path = handed.file->path;
      connected_->channel->send(answer, std::move(fds));
      return platform::step("handed.sent");
    }
    throw not_here();
  });
}

// The sockets of a process close before its contexts are gone, so what it writes last may still be
// on its way: whoever asks waits until it is known what came of that.
void Exchange::hand_over_device_memory(const link::HandOver& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "HAND_OVER.writable");
  const link::IssuedRef issued = issued_under(asked.link, asked.token);
  const auto left = surroundings_.estate_of(asked.owner);
  const auto found = std::find_if(left.begin(), left.end(), [&](const auto& connected) {
    return connected->cuda.has(asked.segment, grant);
  });
  if (!issued || found == left.end()) throw not_here();
  if (!issued->is_settled()) return hand_over_later(asked);
  if (!issued->intact()) throw Error(Code::kClosed, "its owner died before the GPU had written it");
  memory::BorrowedCuda::Handed handed = (*found)->cuda.hand_on(asked.segment, grant);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(handed.fd));
  connected_->channel->send(
      link::Handed{
          .request = asked.request, .bytes = handed.bytes, .device = {handed.device.bytes}},
      std::move(fds));
  platform::step("handed.sent");
}

void Exchange::hand_over_later(const link::HandOver& asked) {
  if (handing_over_ >= kMostWaiting)
    throw Error(Code::kOutOfMemory, "too much of what a dead process left is asked for at once");
  surroundings_.service.post_later(kLookAgain, [weak = weak_from_this(), asked] {
    const auto self = weak.lock();
    if (!self) return;
    --self->handing_over_;
    if (!self->ended_)
      self->do_or_deny(asked.request, [&] { self->hand_over_device_memory(asked); });
  });
  ++handing_over_;
}

link::IssuedRef Exchange::issued_under(std::uint32_t link, std::uint64_t token) const {
  if (link != 0) return find_issued_ ? find_issued_(link, token) : nullptr;
  const auto found = lent_.find(token);
  return found != lent_.end() ? found->second : nullptr;
}

}  // namespace tensorbus::bus
