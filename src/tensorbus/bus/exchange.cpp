#include "tensorbus/bus/exchange.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <type_traits>
#include <utility>

#include "tensorbus/bus/queue_host.hpp"
#include "tensorbus/link/peer.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMostLent = std::size_t{1} << 20;
constexpr std::size_t kMostUnheard = 4096;  // answers
constexpr std::size_t kMostPinned = 4096;   // blocks, of one process
constexpr std::chrono::milliseconds kLookAtMarks{2};

std::uint32_t as_field(memory::Grant grant) { return grant == memory::Grant::kWrite ? 1 : 0; }

}  // namespace

Exchange::Exchange(Surroundings& surroundings, std::shared_ptr<link::Connected> connected,
                   std::shared_ptr<link::SegmentSender> segments)
    : surroundings_(surroundings),
      connected_(std::move(connected)),
      segments_(std::move(segments)) {}

void Exchange::know(const Id& peer) {
  source_ = std::make_shared<const link::Source>(link::Source{peer, 0, {}});
  connected_->pinned->tell_by(
      [channel = connected_->channel](std::uint32_t segment, memory::Range part) {
        constexpr auto kReleased = static_cast<std::uint32_t>(link::PinVerb::kReleased);
        channel->send(
            link::Pin{.verb = kReleased, .segment = segment, .begin = part.begin, .end = part.end});
      });
}

template <typename Request>
std::uint32_t Exchange::ask(Request request, link::ControlType answered_by, OnAnswer on_answer) {
  if (ended_) {
    Answer closed = Error(Code::kClosed, "the other process has hung up");
    on_answer(closed);
    return 0;
  }
  used_ = true;
  request.request = next_request_++;
  constexpr bool kMayBeTold = std::is_same_v<Request, link::Get>;  // that there is no item
  asked_.emplace(request.request, Asked{answered_by, kMayBeTold, std::move(on_answer)});
  connected_->channel->send(request);
  platform::step("request.sent");
  return request.request;
}

void Exchange::attach(const Shares::Name& share, memory::Grant grant, OnAnswer on_answer) {
  ask(link::Attach{0, share.number, share.key, as_field(grant)}, link::ControlType::kLent,
      std::move(on_answer));
}

void Exchange::claim(std::vector<link::BlockName> blocks, memory::Grant grant, OnAnswer on_answer) {
  ask(link::Claim{0, as_field(grant), std::move(blocks)}, link::ControlType::kLent,
      std::move(on_answer));
}

void Exchange::stage(const link::BlockName& block, std::uint64_t bytes, OnAnswer on_answer) {
  ask(link::Stage{0, block, bytes}, link::ControlType::kStaged, std::move(on_answer));
}

void Exchange::hand_over(const Id& owner, std::uint32_t segment, memory::Grant grant,
                         OnAnswer on_answer) {
  ask(link::HandOver{0, owner, segment, as_field(grant)}, link::ControlType::kHanded,
      std::move(on_answer));
}

std::uint32_t Exchange::put(const link::QueueName& queue, std::uint32_t flags,
                            const link::Entry& entry, const link::IssuedRef& issued,
                            memory::Grant grant, OnAnswer on_answer, std::uint64_t number) {
  if (ended_) return ask(link::Put{}, link::ControlType::kTold, std::move(on_answer));
  link::Put request{0, queue, flags, lent(entry, issued, grant)};
  request.lent.number = number;
  try {
    return ask(request, link::ControlType::kTold, std::move(on_answer));
  } catch (...) {
    lent_.erase(request.lent.token);
    throw;
  }
}

std::uint32_t Exchange::get(const link::QueueName& queue, std::uint32_t flags, OnAnswer on_answer) {
  return ask(link::Get{0, queue, flags}, link::ControlType::kLent, std::move(on_answer));
}

std::uint32_t Exchange::call(const link::QueueName& queue, link::QueueVerb verb,
                             OnAnswer on_answer) {
  return ask(link::QueueCall{0, queue, static_cast<std::uint32_t>(verb)}, link::ControlType::kTold,
             std::move(on_answer));
}

void Exchange::cancel(std::uint32_t request) {
  if (!ended_ && asked_.contains(request)) connected_->channel->send(link::Cancel{request});
}

bool Exchange::on_message(link::Channel::Received& received) {
  switch (received.header.type) {
    case link::ControlType::kSegment: {
      const auto segment = received.as<link::SegmentMessage>();
      const memory::Grant grant = link::grant_of(segment.writable, "SEGMENT.writable");
      connected_->segments_for(grant).add(segment.segment, received.take_fd(), segment.bytes);
      platform::step("segment.received");
      return true;
    }
    case link::ControlType::kFile: {
      const auto file = received.as<link::FileMessage>();
      const memory::Grant grant = link::grant_of(file.writable, "FILE.writable");
      connected_->segments_for(grant).add_file(file.segment, received.take_fd(), file.bytes,
                                               {file.offset, link::as_text(file.path)});
      return true;
    }
    case link::ControlType::kCudaSegment: {
      const auto segment = received.as<link::CudaSegment>();
      connected_->cuda.add(segment.segment, received.take_fd(), segment.bytes,
                           platform::cu::Uuid{segment.device.bytes});
      platform::step("segment.received");
      return true;
    }
    case link::ControlType::kCudaExport:
      on_export(received);
      return true;
    case link::ControlType::kTimeline:
      connected_->cuda.set_timeline(received.take_fd(), connected_->pidfd);
      return true;
    case link::ControlType::kTimelineEvent: {
      const auto event = received.as<link::TimelineEvent>();
      connected_->cuda.add_event(
          {event.slot, platform::cu::Uuid{event.device.bytes}, {event.name}});
      return true;
    }
    case link::ControlType::kPin:
      on_pin(received.as<link::Pin>());
      return true;
    case link::ControlType::kRetired: {
      const auto number = received.as<link::Retired>().number;
      connected_->cuda.retire(number);
      connected_->segments.retire(number);
      connected_->writable_segments.retire(number);
      return true;
    }
    case link::ControlType::kAttach:
      on_attach(received.as<link::Attach>());
      return true;
    case link::ControlType::kClaim:
      on_claim(received.as<link::Claim>());
      return true;
    case link::ControlType::kStage:
      on_stage(received.as<link::Stage>());
      return true;
    case link::ControlType::kHandOver:
      on_hand_over(received.as<link::HandOver>());
      return true;
    case link::ControlType::kReturn:
      on_return(received.as<link::Return>());
      return true;
    case link::ControlType::kPut: {
      const auto asked = received.as<link::Put>();
      serve(asked.request, [&] { queues().on_put(shared_from_this(), asked); });
      return true;
    }
    case link::ControlType::kGet: {
      const auto asked = received.as<link::Get>();
      serve(asked.request, [&] { queues().on_get(shared_from_this(), asked); });
      return true;
    }
    case link::ControlType::kQueue: {
      const auto asked = received.as<link::QueueCall>();
      serve(asked.request, [&] { queues().on_call(shared_from_this(), asked); });
      return true;
    }
    case link::ControlType::kCancel: {
      const auto request = received.as<link::Cancel>().request;
      if (surroundings_.queues) surroundings_.queues->on_cancel(*this, request);
      return true;
    }
    case link::ControlType::kTold: {
      const auto told = received.as<link::Told>();
      answer(told.request, received.header.type, told);
      return true;
    }
    case link::ControlType::kLent: {
      auto lent = received.as<link::Lent>();
      const std::uint32_t request = lent.request;
      answer(request, received.header.type, std::move(lent));
      return true;
    }
    case link::ControlType::kStaged: {
      const auto staged = received.as<link::Staged>();
      answer(staged.request, received.header.type, staged);
      return true;
    }
    case link::ControlType::kHanded: {
      const auto handed = received.as<link::Handed>();
      HandedSegment segment{received.take_fd(), handed.bytes, std::nullopt};
      if (handed.is_file != 0) segment.file = {handed.offset, link::as_text(handed.path)};
      answer(handed.request, received.header.type, std::move(segment));
      return true;
    }
    case link::ControlType::kDenied: {
      const auto denied = received.as<link::Denied>();
      answer(denied.request, received.header.type,
             Error(link::code_of(denied.code), link::as_reason(denied.text)));
      return true;
    }
    default:
      return false;
  }
}

void Exchange::on_export(link::Channel::Received& received) {
  auto said = received.as<link::CudaExport>();
  memory::ExportPart part{.segment = said.segment,
                          .kind = said.kind,
                          .bytes = said.bytes,
                          .device = platform::cu::Uuid{said.device.bytes},
                          .handle = std::move(said.handle),
                          .chunk = said.chunk,
                          .chunks = said.chunks,
                          .chunk_bytes = said.chunk_bytes};
  if (!received.datagram.fds.empty()) part.fd = received.take_fd();
  const bool ours = link::is_this_process(connected_->channel->fd());
  connected_->cuda.add_export(source_ ? source_->participant : Id(), ours, std::move(part));
  platform::step("segment.received");
}

// An answer that nobody waits for is the peer's mistake; what it lent with it stays its own.
void Exchange::answer(std::uint32_t request, link::ControlType by, Answer answer) {
  const auto found = asked_.find(request);
  if (found == asked_.end())
    throw Error(Code::kProtocol, "answer.request: " + std::to_string(request) + " was not asked");
  const bool to_get = by == link::ControlType::kTold && found->second.may_be_told;
  if (by != link::ControlType::kDenied && by != found->second.answered_by && !to_get)
    throw Error(Code::kProtocol,
                "answer.request: " + std::to_string(request) + " asked for something else");
  const OnAnswer on_answer = std::move(found->second.on_answer);
  asked_.erase(found);
  on_answer(answer);
}

void Exchange::serve(std::uint32_t request, const std::function<void()>& work) {
  used_ = true;
  if (connected_->channel->waiting() >= kMostUnheard)
    throw Error(Code::kProtocol, "the peer asks, and does not read the answers");
  // Made first: to say that there is no memory must not take any.
  auto no_memory =
      link::Channel::prepare(link::Denied{request, static_cast<std::uint32_t>(Code::kOutOfMemory),
                                          "the process that was asked has no memory left"});
  try {
    work();
  } catch (const Error& error) {
    deny(request, error);
  } catch (const std::bad_alloc&) {
    connected_->channel->send(std::move(no_memory));
  }
}

QueueHost& Exchange::queues() const {
  if (!surroundings_.queues) throw Error(Code::kClosed, "there are no queues here");
  return *surroundings_.queues;
}

void Exchange::on_attach(const link::Attach& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "ATTACH.writable");
  serve(asked.request, [&] {
    const Shares::Offer offer = surroundings_.shares.find({asked.share, asked.key}, grant);
    surroundings_.shares.count_use(asked.share);
    try {
      lend(asked.request, offer.entry, offer.issued, grant);
    } catch (...) {
      surroundings_.shares.undo_use(asked.share);
      throw;
    }
    surroundings_.shares.end_if_spent(asked.share);
  });
}

void Exchange::on_claim(const link::Claim& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "CLAIM.writable");
  platform::step("claim.received");
  serve(asked.request, [&] {
    Few<memory::BlockRef> blocks;
    Few<std::uint32_t> files;
    Few<std::shared_ptr<const void>> kept;
    for (const link::BlockName& name : asked.blocks) {
      if (const auto file = surroundings_.arena->files().find(name.segment)) {
        if (grant == memory::Grant::kWrite && file->mode() != memory::MappedFile::Mode::kReadWrite)
          throw Error(Code::kPermission, "CLAIM.writable: this file is only read");
        files.push_back(name.segment);
        kept.push_back(file);
        continue;
      }
      memory::BlockRef block = surroundings_.find_block(name.segment, name.offset, name.generation);
      if (!block) throw Error(Code::kClosed, "CLAIM.blocks: one of them is gone");
      if (grant > block->most_granted())
        throw Error(Code::kPermission, "CLAIM.writable: this memory is only read");
      blocks.push_back(std::move(block));
    }
    const auto none = std::make_shared<link::ByteCounter>(0);
    lend(asked.request, {},
         std::make_shared<link::IssuedSample>(std::move(blocks), none, std::move(files),
                                              std::move(kept)),
         grant);
  });
}

void Exchange::on_hand_over(const link::HandOver& asked) {
  const memory::Grant grant = link::grant_of(asked.writable, "HAND_OVER.writable");
  serve(asked.request, [&] {
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
    throw Error(Code::kClosed, "HAND_OVER.segment: it is not here, or its owner lives");
  });
}

// A GPU tells nobody when it has written a counter: it is looked at, for as long as one is awaited.
void Exchange::on_return(const link::Return& returned) {
  if (segments_->reached(returned.mark)) {
    lent_.erase(returned.token);
    return;
  }
  if (!lent_.contains(returned.token)) return;
  const bool first = returning_.empty();
  returning_.emplace(returned.token, returned.mark);
  if (first) take_back_what_is_reached();
}

void Exchange::take_back_what_is_reached() {
  std::erase_if(returning_, [this](const auto& item) {
    if (!segments_->reached(item.second)) return false;
    lent_.erase(item.first);
    return true;
  });
  if (returning_.empty() || ended_) return;
  surroundings_.service.post_later(kLookAtMarks, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->take_back_what_is_reached();
  });
}

// Asked and released by the one who borrows here, answered by the one who owns.
void Exchange::on_pin(const link::Pin& pin) {
  const memory::Range part{pin.begin, pin.end};
  switch (static_cast<link::PinVerb>(pin.verb)) {
    case link::PinVerb::kAsk: {
      if (connected_->channel->waiting() >= kMostUnheard)
        throw Error(Code::kProtocol, "the peer asks, and does not read the answers");
      link::Pin answer = pin;
      const auto node = pinned_.emplace(pin.segment, memory::Range{});
      const auto granted = pinned_.size() <= kMostPinned
                               ? surroundings_.arena->pin(pin.segment, pin.offset, pin.generation)
                               : std::nullopt;
      if (granted)
        node->second = *granted;
      else
        pinned_.erase(node);
      answer.verb =
          static_cast<std::uint32_t>(granted ? link::PinVerb::kGranted : link::PinVerb::kRefused);
      answer.begin = granted.value_or(memory::Range{}).begin;
      answer.end = granted.value_or(memory::Range{}).end;
      return connected_->channel->send(answer);
    }
    case link::PinVerb::kGranted:
      return connected_->pinned->answer({pin.segment, pin.offset, pin.generation}, part);
    case link::PinVerb::kRefused:
      return connected_->pinned->answer({pin.segment, pin.offset, pin.generation}, std::nullopt);
    case link::PinVerb::kReleased: {
      const auto [begin, end] = pinned_.equal_range(pin.segment);
      const auto found =
          std::find_if(begin, end, [&](const auto& item) { return item.second == part; });
      if (found == end) throw Error(Code::kProtocol, "PIN.begin: nothing is pinned there");
      pinned_.erase(found);
      return surroundings_.arena->unpin(pin.segment, part);
    }
  }
  throw Error(Code::kProtocol, "PIN.verb: " + std::to_string(pin.verb));
}

void Exchange::deny(std::uint32_t request, const Error& why) {
  connected_->channel->send(link::Denied{request, static_cast<std::uint32_t>(why.code()),
                                         std::string(why.what()).substr(0, 1024)});
}

void Exchange::require_room_for_a_lease() const {
  if (lent_.size() >= kMostLent)
    throw Error(Code::kOutOfMemory, "more than 2^20 leases of one process: let go of some");
}

link::Lent Exchange::lent(const link::Entry& entry, const link::IssuedRef& issued,
                          memory::Grant grant) {
  require_room_for_a_lease();
  link::Lent lent{0, 0, entry.length, entry.segment, entry.offset, {}, 0};
  if (entry.is_inline())
    lent.inline_bytes.assign(reinterpret_cast<const char*>(entry.inline_bytes.data()),
                             entry.length);
  if (issued) {
    for (const memory::BlockRef& block : issued->blocks())
      segments_->ensure_sent(block->segment(), grant);
    for (const std::uint32_t file : issued->files()) segments_->ensure_sent(file, grant);
    lent.mark = segments_->mark_for(issued, nullptr).packed();
    lent.token = next_token_++;
    lent_.emplace(lent.token, issued);
  }
  return lent;
}

void Exchange::lend(std::uint32_t request, const link::Entry& entry, const link::IssuedRef& issued,
                    memory::Grant grant, std::uint64_t number) {
  link::Lent message = lent(entry, issued, grant);
  message.request = request;
  message.number = number;
  try {
    connected_->channel->send(message);
  } catch (...) {
    lent_.erase(message.token);
    throw;
  }
  platform::step("lent.sent");
}

void Exchange::give_back(const link::Lent& lent) {
  if (lent.token != 0) connected_->channel->send(link::Return{lent.token});
}

void Exchange::end(const std::string& why) {
  ended_ = true;
  for (const auto& [token, mark] : std::exchange(returning_, {}))
    if (const auto found = lent_.find(token); found != lent_.end())
      segments_->keep_until(mark, found->second);
  lent_.clear();
  connected_->pinned->owner_gone();
  // The peer has unpinned what it had, or is dead; or it has hung up with it, to its own harm.
  for (const auto& [segment, part] : std::exchange(pinned_, {}))
    surroundings_.arena->unpin(segment, part);
  if (surroundings_.queues) surroundings_.queues->forget(*this);
  auto asked = std::exchange(asked_, {});
  for (auto& [request, waiting] : asked) {
    Answer closed =
        Error(Code::kClosed, why.empty() ? "the other process has exited, or hung up" : why);
    waiting.on_answer(closed);
  }
}

}  // namespace tensorbus::bus
