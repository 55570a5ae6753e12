#include "tensorbus/link/ring/segment_sender.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/leak.hpp"

namespace tensorbus::link {
namespace {

// Each unread message keeps a descriptor of this process open until the borrower reads it.
constexpr std::size_t kMaxUnread = 256;

std::uint32_t as_field(memory::Grant grant) { return grant == memory::Grant::kWrite ? 1 : 0; }

// Returns true if is_so(segment) is true for each segment of the sample.
template <typename IsSo>
bool all_segments(const PublishedSample& sample, IsSo is_so) {
  return std::ranges::all_of(
             sample.blocks(),
             [&](const memory::BlockRef& block) { return is_so(block->segment()); }) &&
         std::ranges::all_of(sample.files(), is_so);
}

}  // namespace

SegmentSender::SegmentSender(std::shared_ptr<Channel> channel, std::shared_ptr<memory::Arena> arena,
                             std::shared_ptr<device::DeviceMemory> device_memory)
    : channel_(std::move(channel)),
      arena_(std::move(arena)),
      device_memory_(std::move(device_memory)),
      holds_(channel_) {}

SegmentSender::~SegmentSender() { holds_.end(std::move(peer_)); }

void SegmentSender::ensure_sent(memory::SegmentId segment, memory::Grant grant) {
  const platform::MutexLock lock(mutex_);
  if (sent_.contains({segment, grant})) return;
  require_reader();
  decltype(sent_) one;  // allocated before the message is sent
  one.try_emplace({segment, grant}, false);
  if (segment.kind() == memory::SegmentKind::kFile)
    send_file(segment, grant);
  else if (segment.on_device())
    send_device_memory(segment, grant);
  else
    send_segment(segment, grant);
  sent_.merge(one);
  platform::kill_point("publish.segment_sent");
}

bool SegmentSender::has_arrived(const PublishedSample& sample, memory::Grant grant) {
  const platform::MutexLock lock(mutex_);
  return all_segments(sample, [&](memory::SegmentId segment) {
    mutex_.assert_held();
    const auto found = sent_.find({segment, grant});
    return found != sent_.end() && found->second;
  });
}

void SegmentSender::mark_arrived(const PublishedSample& sample, memory::Grant grant) noexcept {
  const platform::MutexLock lock(mutex_);
  (void)all_segments(sample, [&](memory::SegmentId segment) {
    mutex_.assert_held();
    if (const auto found = sent_.find({segment, grant}); found != sent_.end()) found->second = true;
    return true;
  });
}

void SegmentSender::require_reader() const {
  const std::size_t unread = channel_->waiting_with_descriptors();
  if (unread >= kMaxUnread)
    throw Error(Code::kSystem, "the subscriber's process does not read its messages");
  if (unread != 0) account_.require_descriptors(1);
}

void SegmentSender::send_segment(memory::SegmentId segment, memory::Grant grant) {
  memory::SharedSegment shared = arena_->share_segment(segment, grant);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(shared.fd));
  channel_->send(SegmentMessage{segment, shared.bytes, as_field(grant)}, std::move(fds));
}

void SegmentSender::send_file(memory::SegmentId segment, memory::Grant grant) {
  const auto file = arena_->files().find(segment);
  if (!file) throw Error(Code::kClosed, "a file that is not mapped any more");
  std::vector<platform::Fd> fds;
  fds.push_back(file->descriptor(grant));
  const std::string path = file->path().substr(0, 1024);
  channel_->send(
      FileMessage{segment, file->pages().size(), file->first_page(), as_field(grant), path},
      std::move(fds));
}

void SegmentSender::send_device_memory(memory::SegmentId segment, memory::Grant grant) {
  (void)timeline();  // a peer with device memory also has the timeline
  if (segment.kind() == memory::SegmentKind::kForeign) return send_export(segment);
  memory::SharedSegment shared = device_memory_->share_segment(segment);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(shared.fd));
  channel_->send(DeviceSegment{segment, shared.bytes, shared.device, as_field(grant)},
                 std::move(fds));
}

void SegmentSender::send_export(memory::SegmentId segment) {
  using Kind = device::ForeignMemory::Kind;
  const auto shared = device_memory_->exports().memory_of(segment);
  DeviceExport message{.segment = segment,
                       .kind = static_cast<std::uint32_t>(shared->kind()),
                       .bytes = shared->range().size(),
                       .device = Id{shared->range().device().uuid().bytes}};
  if (shared->kind() == Kind::kChunks) return send_chunks(std::move(message), *shared);
  const auto& handle = shared->handle();
  message.handle.assign(reinterpret_cast<const char*>(handle.data()), handle.size());
  if (shared->kind() == Kind::kPool) return send_pooled(message, *shared);
  channel_->send(message);
}

void SegmentSender::send_pooled(const DeviceExport& message, const device::ForeignMemory& memory) {
  std::vector<platform::Fd> fds;
  fds.push_back(platform::duplicate(memory.pool().get()));
  holds_.add(message.segment, device_memory_->exports().held(message.segment));
  try {
    channel_->send(message, std::move(fds));
  } catch (...) {
    holds_.remove(message.segment);
    throw;
  }
}

// Makes all descriptors before the first is sent.
void SegmentSender::send_chunks(DeviceExport message, const device::ForeignMemory& memory) {
  std::vector<platform::Fd> fds;
  for (const auto& chunk : memory.chunks()) fds.push_back(chunk.allocation.descriptor());
  message.chunks = static_cast<std::uint32_t>(fds.size());
  begun_.insert(message.segment);
  for (; message.chunk < message.chunks; ++message.chunk) {
    message.chunk_bytes = memory.chunks()[message.chunk].allocation.bytes();
    std::vector<platform::Fd> one;
    one.push_back(std::move(fds[message.chunk]));
    channel_->send(message, std::move(one));
  }
}

device::Mark SegmentSender::mark_for(const PublishedRef& sample, const device::GpuStream* writer) {
  if (!sample || !sample->on_device()) return {};
  const platform::MutexLock lock(mutex_);
  device::Timeline& timeline = this->timeline();
  return writer != nullptr ? timeline.signal(*writer)
                           : device_memory_->marks().when_whole(timeline, sample->blocks().span());
}

device::Timeline& SegmentSender::timeline() {
  if (made_) return *made_;
  require_reader();
  auto timeline = std::make_unique<device::Timeline>(peer_);
  std::vector<platform::Fd> fds;
  fds.push_back(platform::duplicate(timeline->memfd().get()));
  channel_->send(TimelineMessage{}, std::move(fds));
  made_ = std::move(timeline);
  timeline_.store(made_.get(), std::memory_order_release);
  return *made_;
}

void SegmentSender::set_peer(std::shared_ptr<const platform::Fd> pidfd) {
  const platform::MutexLock lock(mutex_);
  peer_ = std::move(pidfd);
}

void SegmentSender::peer_hung_up() noexcept {
  const platform::MutexLock lock(mutex_);
  if (made_ && !peer_) made_->peer_died();
  holds_.end(peer_);
}

// If a borrower writes an invalid mark, its lease ends too early, which harms only that borrower.
bool SegmentSender::reached(std::uint64_t packed_mark) const noexcept {
  const device::Mark mark = device::Mark::of(packed_mark);
  const device::Timeline* const timeline = timeline_.load(std::memory_order_acquire);
  return timeline == nullptr || mark.slot >= device::Mark::kSlots || timeline->reached(mark);
}

void SegmentSender::keep_until(std::uint64_t packed_mark, PublishedRef sample) noexcept {
  if (reached(packed_mark)) return;
  try {
    timeline_.load(std::memory_order_acquire)->keep_until(device::Mark::of(packed_mark), sample);
  } catch (const std::exception&) {
    platform::leak(std::move(sample));
  }
}

void SegmentSender::retire(memory::SegmentId segment) {
  const platform::MutexLock lock(mutex_);
  const bool sent = sent_.contains({segment, memory::Grant::kRead}) ||
                    sent_.contains({segment, memory::Grant::kWrite}) || begun_.contains(segment);
  if (!sent) return;
  channel_->send(Retired{segment});
  sent_.erase({segment, memory::Grant::kRead});
  sent_.erase({segment, memory::Grant::kWrite});
  begun_.erase(segment);
}

void SegmentSender::closed(memory::SegmentId segment) {
  PoolHolds::Hold gone;  // released after the mutex
  const platform::MutexLock lock(mutex_);
  gone = holds_.take(segment);
}

}  // namespace tensorbus::link
