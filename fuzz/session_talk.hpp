#pragma once

// Lending by message (docs/internals/protocol.md, section 6), for both connections: the messages of
// the raw peer, and this participant's end, which attaches and holds samples.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/peer_talk.hpp"
#include "fuzz/queue_talk.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"
#include "tensorbus/link/wire/dispatch.hpp"
#include "tensorbus/memory/host/borrowed_segments.hpp"

namespace tensorbus::fuzz {

// A share of this participant, for one input.
class SharedOnce {
 public:
  explicit SharedOnce(World& world) : world_(world) {
    const std::vector<std::uint64_t> numbers(10);
    const std::vector<TensorView> tensors(1, TensorView::of(numbers.data(), {10}));
    bus::CopyTuner copies;
    const Blocks blocks(*world.arena, memory::Grant::kRead);
    bus::SampleBuilder sample(
        tensors, {},
        {*world.arena, *world.device_memory, blocks, copies, memory::Grant::kRead,
         world.context.self, *world.context.lent, true});
    const memory::BlockRef& block = sample.issued()->blocks()[0];
    name_ = world.context.shares
                .add({sample.entry(), sample.issued(), memory::Grant::kRead}, 5,
                     bus::Shares::Clock::time_point::max())
                .name;
    block_ = {block->segment(), block->offset(), block->generation()};
    sample.mark_done();
  }
  ~SharedOnce() { world_.context.shares.close(name_.number); }
  SharedOnce(const SharedOnce&) = delete;
  SharedOnce& operator=(const SharedOnce&) = delete;

  const bus::Shares::Name& name() const { return name_; }
  const link::BlockName& block() const { return block_; }

 private:
  World& world_;
  bus::Shares::Name name_;
  link::BlockName block_;
};

// Sends one of these messages, with numbers that may be valid.
inline void say_exchange(PeerTalk& talk, const SharedOnce& shared, ServedOnce& hosted,
                         Input& input) {
  switch (input.below(17)) {
    case 0: {
      link::Attach attach{input.below(4), shared.name().number, shared.name().key, 0};
      if (input.byte() >= 0xc0) attach = {1, input.number(), input.number(), input.below(3)};
      return talk.say(attach, input);
    }
    case 1: {
      link::Acquire acquire{input.below(4), input.byte() < 0xe0 ? 0 : input.below(3), {}};
      for (std::uint32_t i = input.below(4); i > 0; --i) {
        link::BlockName block = shared.block();
        if (input.flag()) block.offset += input.number();
        if (input.byte() >= 0xc0) block.segment = input.below(4);
        if (input.byte() >= 0xc0) block.generation = input.number();
        acquire.blocks.push_back(block);
      }
      return talk.say(acquire, input);
    }
    case 2: {
      const std::uint32_t request = input.below(4);
      const Id owner{{input.byte()}};
      const link::HandOver hand_over{request, owner, input.below(4), 0};
      return talk.say(hand_over, input);
    }
    case 3: {
      const link::Handed handed{input.below(6), 4096};
      return talk.say(handed, input.flag() ? 3 : input.byte());
    }
    case 4: {
      const std::uint32_t request = input.below(6);
      const std::uint32_t code = input.below(12);
      const link::Denied denied{request, code, std::string(text_of(input.bytes(input.below(16))))};
      return talk.say(denied, input);
    }
    case 5:
      return talk.say(link::Return{input.below(8), wild_mark(input)}, input);
    case 6: {
      link::FileMessage file{.segment = kWildSegments[input.below(4)], .bytes = input.number()};
      file.offset = input.byte() < 0xe0 ? 0 : input.number();
      file.writable = input.below(2);
      return talk.say(file, input.byte());
    }
    case 7:
      return say_queue(talk, hosted, input);
    case 8: {  // there is no driver here: GPU memory is refused
      const memory::SegmentId number = memory::SegmentId::device(0, input.below(2));
      const link::DeviceSegment segment{
          input.byte() < 0xe0 ? number : kWildSegments[input.below(4)], input.number(), Id{}};
      return talk.say(segment, input.byte());
    }
    case 9: {
      link::Stage stage{input.below(4), shared.block(), input.number()};
      if (input.flag()) stage.block.segment = memory::SegmentId::device(0, input.below(2));
      return talk.say(stage, input);
    }
    case 10: {
      link::Staged staged{input.below(6), input.number(), shared.block(), input.below(4)};
      if (input.flag()) staged.copy = {kWildSegments[input.below(4)], input.number(), 1};
      return talk.say(staged, input);
    }
    case 11:
      return talk.say(link::TimelineMessage{}, input.flag() ? 5 : input.byte());
    case 12: {
      link::DeviceExport said{.segment = memory::SegmentId::foreign(input.below(2)),
                              .kind = input.below(5),
                              .bytes = input.flag() ? 4096 : input.number(),
                              .device = {}};
      if (input.flag()) said.handle.assign(input.flag() ? 64 : input.byte(), 'x');
      said.chunk = input.below(3);
      said.chunks = 1 + input.below(3);
      said.chunk_bytes = input.flag() ? 2048 : input.number();
      return input.flag() ? talk.say(said, input) : talk.say(said, input.byte());
    }
    case 13: {
      const link::Pin pin{input.below(5),           kWildSegments[input.below(4)],
                          input.below(512),         std::uint64_t{input.below(8)},
                          input.below(3) * 4096ULL, input.below(4) * 4096ULL};
      return talk.say(pin, input);
    }
    case 14:
      return talk.say(link::DeviceClosed{memory::SegmentId::foreign(input.below(2))}, input);
    case 15: {
      link::Keep keep{bus::Shares::kKept | input.below(3),
                      input.below(2),
                      input.below(3),
                      input.below(3),
                      input.below(2),
                      wild_lent(input)};
      if (input.byte() >= 0xe0) keep.share = input.number();
      talk.note_kept(keep.share);
      return talk.say(keep, input);
    }
    default:
      return talk.say(wild_lent(input), input);
  }
}

// Checks the messages that this participant sends.
struct SenseOfSession {
  void operator()(const link::SegmentMessage& segment, platform::Fd fd) const {
    memory::BorrowedSegments(link::grant_of(segment.writable, "writable"))
        .add(segment.segment, std::move(fd), segment.bytes);
  }
  void operator()(const link::Pin& pin) const {
    check(pin.verb <= static_cast<std::uint32_t>(link::PinVerb::kReleased));
  }
  void operator()(const link::Acquire& acquire) const {
    check(acquire.request != 0 && acquire.blocks.size() <= link::Acquire::kMaxBlocks);
  }
  void operator()(const link::Stage& stage) const { check(stage.request != 0 && stage.bytes != 0); }
  void operator()(const link::Lent& lent) const {
    check(lent.inline_bytes.size() <= link::Lent::kMaxInline);
  }
  void operator()(const link::Denied& denied) const { check(!denied.text.empty()); }
  void operator()(const link::Return& returned) const { check(returned.token != 0); }
  void operator()(const link::Put& put) const {
    check(put.request != 0 && put.lent.inline_bytes.size() <= link::Lent::kMaxInline);
  }
  void operator()(const link::Reply& reply) const {
    check(reply.refused <= link::Reply::kShutDown);
  }
  void operator()(const link::Attach& attach) const { check(attach.request != 0); }
  void operator()(const link::HandOver& hand_over) const { check(hand_over.request != 0); }
  void operator()(const link::Get& get) const { check(get.request != 0); }
  void operator()(const link::QueueCall& call) const { check(call.request != 0); }
  void operator()(const link::Take& take) const { check(take.request != 0); }
  void operator()(const link::Cancel& cancel) const { check(cancel.request != 0); }
  void operator()(const auto&, const auto&...) const {}  // it only has to decode
};

// Returns false for a message about a link.
inline bool hears_exchange(link::Channel::Received& received) {
  return link::dispatch<link::TakenBy::kMemory>(received, SenseOfSession()) ||
         link::dispatch<link::TakenBy::kSession>(received, SenseOfSession());
}

// This participant's end: attaches, and holds the samples that it gets.
class Attaching {
 public:
  Attaching(World& world, std::shared_ptr<bus::PeerSession> session)
      : world_(world), session_(std::move(session)) {}

  void attach(Access access) {
    const memory::Grant grant =
        access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead;
    ++asked_;
    session_->attach({1, 2}, grant, [this, access, grant](bus::PeerSession::Answer& answer) {
      if (std::holds_alternative<Error>(answer)) return answered();
      bus::acquire_leases(world_.context, session_, std::get<link::Lent>(answer), grant,
                          {[this, access](const bus::LentRef& held) {
                             if (auto sample = read_now(held, access))
                               held_.push_back(*std::move(sample));
                             answered();
                           },
                           [this](const Error&) { answered(); }});
    });
  }
  void read_all() const {
    std::uint8_t sum = 0;
    for (const bus::Sample& sample : held_)
      for (const bus::Tensor& tensor : sample.tensors()) {
        const ByteSpan span = span_of(tensor.layout());
        if (span.bytes() == 0) continue;
        sum += static_cast<std::uint8_t>(tensor.data()[span.begin]);
        sum += static_cast<std::uint8_t>(tensor.data()[span.end - 1]);
        if (tensor.writable()) tensor.mutable_data()[span.end - 1] = std::byte{sum};
      }
  }
  void let_go() { held_.clear(); }
  // Checks that each request has had one reply. Called when the connection has ended.
  void require_answers() const { check(answered_ == asked_); }

 private:
  void answered() { check(++answered_ <= asked_); }

  World& world_;
  const std::shared_ptr<bus::PeerSession> session_;
  std::vector<bus::Sample> held_;
  int asked_ = 0;
  int answered_ = 0;
};

}  // namespace tensorbus::fuzz
