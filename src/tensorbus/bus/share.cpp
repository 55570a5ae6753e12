#include "tensorbus/bus/share.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"
#include "tensorbus/bus/session/patient_request.hpp"
#include "tensorbus/bus/subscribe/sample_read.hpp"
#include "tensorbus/memory/file/mapped_file.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {
namespace {

using Clock = Shares::Clock;

Clock::time_point from_now(std::chrono::nanoseconds ttl) {
  const Clock::time_point now = Clock::now();
  return ttl >= Clock::time_point::max() - now ? Clock::time_point::max() : now + ttl;
}

void describe_tensors(Handle& handle, std::span<const TensorView> tensors,
                      const tensor::Descriptor& found) {
  handle.tensors = static_cast<std::uint32_t>(tensors.size());
  const std::size_t described = std::min(tensors.size(), Handle::kMaxDescribed);
  for (std::size_t i = 0; i < described; ++i)
    handle.described.push_back({found.tensors[i].layout, found.tensors[i].offset});
}

using AwaitedHeld = std::shared_ptr<Completion<LentRef>>;

// Requests a shared sample from its owner; `awaited` gets the sample or the error.
void ask_for(Participant& participant, const Handle& handle, Access access,
             std::chrono::nanoseconds patience, const AwaitedHeld& awaited) {
  const LentCallbacks callbacks{[awaited](LentRef held) { awaited->set(std::move(held)); },
                                [awaited](const Error& error) { awaited->fail(error); }};
  const memory::Grant grant =
      access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead;
  const auto absent = "participant " + handle.owner.hex() + " is not in the domain " +
                      participant.domain().path() +
                      ": it has exited, or the handle is of another domain";
  participant.context().post([owner = handle.owner, name = Shares::Name{handle.number, handle.key},
                              grant, patience, callbacks, absent](ParticipantContext& context) {
    const auto reached = std::make_shared<std::shared_ptr<PeerSession>>();
    (void)PatientRequest::start(
        context, owner, patience,
        [name, grant, reached](const std::shared_ptr<PeerSession>& other,
                               PeerSession::OnAnswer on_answer) {
          *reached = other;
          other->attach(name, grant, std::move(on_answer));
        },
        [&context, reached, grant, callbacks](PeerSession::Answer& answer) {
          if (const auto* lent = std::get_if<link::Lent>(&answer))
            acquire_leases(context, *reached, *lent, grant, callbacks);
          else if (const auto* error = std::get_if<Error>(&answer))
            callbacks.on_error(*error);
          else
            callbacks.on_error(Error(Code::kProtocol, "the reply does not match the request"));
        },
        absent);
  });
}

// The keeper's socket accepts a connection even if the keeper is stopped, unless very many wait.
constexpr std::chrono::seconds kPatience{1};

// Returns when the keeper's socket has the message, when the keeper is gone, or after kPatience. If
// the keeper has no room for the connection, the message is sent again later.
void have_kept(Participant& participant, const Handle& handle, const SampleBuilder& sample,
               std::uint64_t carrier, const Id& keeper) {
  const auto sent = std::make_shared<Completion<bool>>();
  participant.context().post([sent, keeper, carrier, number = handle.number,
                              name = Shares::Name{handle.kept_by(keeper).number, handle.key},
                              entry = sample.entry(), issued = sample.issued(),
                              grant = sample.max_grant()](ParticipantContext& context) {
    const auto send = [&context, sent, carrier, number, name, entry, issued, grant](
                          const std::shared_ptr<PeerSession>& keeper_session,
                          PeerSession::OnAnswer on_answer) {
      try {
        context.shares.kept_by(number, keeper_session->keep(name, entry, issued, grant, carrier,
                                                            std::move(on_answer)));
        sent->set(true);
      } catch (const Error& error) {
        sent->fail(error);
      }
    };
    // Called when the keeper is gone.
    const auto on_answer = [&context, sent, number](PeerSession::Answer&) {
      context.shares.kept_by(number, nullptr);
      sent->set(true);
    };
    (void)PatientRequest::start(context, keeper, std::chrono::nanoseconds::max(), send, on_answer,
                                "the process that keeps it is gone");
  });
  (void)sent->wait(platform::StopCondition::ignoring_signals(kPatience));
}

// Checks the description in the handle: a program may have changed it, or made it from a
// dictionary.
void require_as_described(const Handle& handle, const Sample& sample) {
  const auto refuse = [](const std::string& why) {
    throw Error(Code::kInvalidArgument, "the handle does not match the shared tensors: " + why);
  };
  if (handle.tensors != sample.tensors().size())
    refuse("it has " + std::to_string(handle.tensors) + " tensors, the share has " +
           std::to_string(sample.tensors().size()));
  for (std::size_t i = 0; i < handle.described.size(); ++i)
    if (!(handle.described[i].layout == sample.tensors()[i].layout()))
      refuse("tensor " + std::to_string(i) + " has another dtype, shape, strides or flags");
}

}  // namespace

struct Shared::State {
  static constexpr const char* kMovedFrom = "this share was moved from";
  const ParticipantRef participant;
  Handle handle{};
  bool outlives_object = false;

  ~State() {
    if (!outlives_object) participant->close_share(handle.number);
  }
};

Shared::Shared(ForkSafe<State> state) : state_(std::move(state)) {}
Shared::Shared(Shared&&) noexcept = default;
Shared& Shared::operator=(Shared&&) noexcept = default;
Shared::~Shared() = default;

const Handle& Shared::handle() const { return state_->handle; }

bool Shared::open() const { return state_ && state_->participant->shares(state_->handle.number); }

void Shared::close() {
  if (state_) state_->participant->close_share(state_->handle.number);
}

void Shared::outlive_object() { state_->outlives_object = true; }

Loan empty(const Layout& layout, bool shared, const ParticipantRef& participant, Device device) {
  return platform::with_memory_errors([&] {
    const ByteSpan span = span_of(layout);
    const memory::Grant most = shared ? memory::Grant::kWrite : memory::Grant::kRead;
    memory::BlockRef block = !device.is_host()
                                 ? participant->memory().allocate(device, span.bytes(), most)
                                 : participant->memory().allocate(span.bytes(), most);
    block->make_persistent();
    return Loan(std::move(block), layout, span, device, participant);
  });
}

bool is_shared(const void* data, std::size_t bytes, const ParticipantRef& participant) {
  const auto* first = static_cast<const std::byte*>(data);
  memory::BlockRef block = participant->arena().find(first);
  if (!block) block = participant->device_memory().find(data);
  if (block)
    return first + bytes <= block->data() + block->bytes() &&
           block->pool() == memory::Grant::kWrite;  // pool 0: not of an isolated publisher
  if (const memory::MappedFile* const file = memory::MappedFile::at(data))
    return file->mode() == memory::MappedFile::Mode::kReadWrite;
  const auto found = participant->lent().find(first, bytes);
  if (!found || found->place.grant != memory::Grant::kWrite) return false;
  const link::Place& place = found->place;
  if (place.owner != participant->id()) return true;
  block = participant->arena().find(place.segment, place.offset, place.generation);
  return !block || block->pool().number == 0;
}

Shared share(const Message& message, const ShareOptions& options,
             const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const memory::Grant grant = options.shared ? memory::Grant::kWrite : memory::Grant::kRead;
    ForkSafe<Shared::State> state;
    state.emplace(participant);
    SampleBuilder sample(message.tensors, message, participant->memory().supplies(grant));
    Handle& handle = state->handle;
    handle.owner = participant->id();
    describe_tensors(handle, message.tensors, sample.descriptor());
    const auto name = participant->share(sample, options.uses, from_now(options.ttl));
    handle.number = name.number;
    handle.key = name.key;
    sample.mark_done();
    return Shared(std::move(state));
  });
}

Handle share_once(const Message& message, bool shared, std::uint64_t carrier,
                  const std::optional<Id>& keeper, const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const memory::Grant grant = shared ? memory::Grant::kWrite : memory::Grant::kRead;
    SampleBuilder sample(message.tensors, message, participant->memory().supplies(grant));
    Handle handle;
    handle.owner = participant->id();
    describe_tensors(handle, message.tensors, sample.descriptor());
    const auto name = participant->share(sample, 1, Clock::time_point::max(), carrier);
    handle.number = name.number;
    handle.key = name.key;
    if (keeper) have_kept(*participant, handle, sample, carrier, *keeper);
    sample.mark_done();
    return handle;
  });
}

void close_share(const Handle& handle, const ParticipantRef& participant) {
  participant->close_share(handle.number);
}

void close_carried_by(std::uint64_t carrier, const ParticipantRef& participant) {
  participant->all_shares().close_carried_by(carrier);
}

std::set<std::uint64_t> carriers(std::chrono::nanoseconds open_for,
                                 const ParticipantRef& participant) {
  return participant->all_shares().carriers(open_for);
}

std::set<std::uint64_t> unkept(const ParticipantRef& participant) {
  return participant->all_shares().unkept();
}

Outcome attach(Sample& sample, const Handle& handle, const AttachOptions& options,
               const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    const platform::StopCondition stop(options.timeout, options.give_up);
    const auto awaited = std::make_shared<Completion<LentRef>>();
    ask_for(*participant, handle, options.access, PatientRequest::patience_of(stop), awaited);
    Outcome outcome = awaited->wait(stop);
    if (outcome != Outcome::kDone) return outcome;
    SampleRead reading(participant->context(), awaited->take(), options.access);
    Sample found;
    outcome = reading.read(found, stop);
    if (outcome != Outcome::kDone) return outcome;
    require_as_described(handle, found);
    sample = std::move(found);
    return outcome;
  });
}

Sample attach(const Handle& handle, const AttachOptions& options,
              const ParticipantRef& participant) {
  Sample sample;
  if (attach(sample, handle, options, participant) != Outcome::kDone)
    throw Error(Code::kTimeout, "no reply in time: the share's process is stopped, or very busy");
  return sample;
}

}  // namespace tensorbus::bus
