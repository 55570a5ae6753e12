#include "tensorbus/bus/collect.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tensorbus/bus/claiming.hpp"
#include "tensorbus/bus/sample_parts.hpp"
#include "tensorbus/bus/staging.hpp"
#include "tensorbus/link/message_lender.hpp"

namespace tensorbus::bus {
namespace {

link::Entry entry_of(const link::Lent& lent) {
  link::Entry entry;
  entry.token = lent.token;
  entry.length = lent.length;
  entry.segment = lent.segment;
  entry.offset = lent.offset;
  entry.timeline = lent.mark;
  if (entry.is_inline() &&
      (lent.inline_bytes.size() != lent.length || lent.length > link::kInlineBytes))
    throw Error(Code::kProtocol, "LENT.length: " + std::to_string(lent.length));
  if (entry.is_inline())
    std::memcpy(entry.inline_bytes.data(), lent.inline_bytes.data(), lent.length);
  return entry;
}

Error half_written() {
  return Error(Code::kClosed, "its owner died before the GPU had written it");
}

struct Collecting {
  std::shared_ptr<link::Lender> lender;
  link::Entry entry;
  Access access;
  Receiver receiver;

  // The lease, while it is nobody else's.
  std::shared_ptr<link::Lease> hold() const {
    return std::make_shared<link::Lease>(lender, entry.token);
  }
  // With anything but kDone and an error of the descriptor the lease is still nobody else's; when
  // memory is short it goes back.
  SampleParts::Read read(const Claimed* claimed) {
    Sample sample;
    SampleParts::Read read{};
    try {
      read = SampleParts::read(sample, lender, entry, access, claimed);
    } catch (const Error& error) {
      if (error.code() == Code::kOutOfMemory) (void)hold();
      throw;
    } catch (const std::bad_alloc&) {
      (void)hold();
      throw;
    }
    if (read == SampleParts::Read::kDone) receiver.on_sample(std::move(sample));
    return read;
  }
  void read_without(std::shared_ptr<link::Lender> other) {
    lender = std::move(other);
    entry.token = 0;
  }
};

// Does the sender itself own some of it?
bool owns_any(const Descriptor& descriptor) {
  return std::any_of(descriptor.tensors.begin(), descriptor.tensors.end(),
                     [](const TensorEntry& entry) {
                       return entry.owner == 0 && span_of(entry.layout).bytes() != 0;
                     });
}

template <typename Work>
void guarded(const Receiver& receiver, Work work) {
  try {
    work();
  } catch (const Error& error) {
    receiver.on_error(error);
  } catch (const std::bad_alloc&) {
    receiver.on_error(Error(Code::kOutOfMemory, "no memory for the books of a sample"));
  }
}

// Reads it with what was claimed, or with nothing. Of what this process cannot reach, copies are
// asked for, once. True if that is all; else some of it is to be claimed first.
bool read_or_stage(Surroundings& surroundings, const std::shared_ptr<Collecting>& all,
                   const Claimed* claimed) {
  const SampleParts::Read read = all->read(claimed);
  if (read == SampleParts::Read::kDone) return true;
  const auto held = all->hold();
  switch (read) {
    case SampleParts::Read::kSegmentMissing:
      throw Error(Code::kProtocol, "LENT: a segment that never came");
    case SampleParts::Read::kHalfWritten:
      throw half_written();
    case SampleParts::Read::kOutOfReach:
      break;
    default:
      held->forget();
      return false;
  }
  if (claimed != nullptr && !claimed->staged.empty())
    throw Error(Code::kProtocol, "STAGED: not what was asked for");
  Staging::start(surroundings, SampleParts::out_of_reach(*all->lender, all->entry, claimed),
                 claimed != nullptr ? *claimed : Claimed(),
                 [&surroundings, all, held](std::variant<Claimed, Error> staged) {
                   guarded(all->receiver, [&] {
                     if (const auto* error = std::get_if<Error>(&staged)) throw *error;
                     held->forget();
                     read_or_stage(surroundings, all, &std::get<Claimed>(staged));
                   });
                 });
  return true;
}

// Has leases got on what the sender hands on.
void claim_and_read(Surroundings& surroundings, const std::shared_ptr<Collecting>& all,
                    const std::shared_ptr<Exchange>& from, memory::Grant grant) {
  const auto held = all->hold();
  const Descriptor descriptor = SampleParts::handed_on(*all->lender, all->entry);
  // What is wholly others' is read without the sender's lease, which goes back at the end.
  auto without = owns_any(descriptor)
                     ? nullptr
                     : std::make_shared<link::MessageLender>(from->source(), from->connected(),
                                                             grant, surroundings.lent, 0);
  Claiming::start(surroundings, descriptor, from, grant,
                  [&surroundings, all, held,
                   without = std::move(without)](std::variant<Claimed, Error> claimed) {
                    guarded(all->receiver, [&] {
                      if (const auto* error = std::get_if<Error>(&claimed)) throw *error;
                      if (without)
                        all->read_without(without);
                      else
                        held->forget();
                      read_or_stage(surroundings, all, &std::get<Claimed>(claimed));
                    });
                  });
}

}  // namespace

void collect(Surroundings& surroundings, const std::shared_ptr<Exchange>& from,
             const link::Lent& lent, Access access, Receiver receiver) noexcept {
  guarded(receiver, [&] {
    const memory::Grant grant =
        access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead;
    auto lender = std::make_shared<link::MessageLender>(from->source(), from->connected(), grant,
                                                        surroundings.lent, lent.token);
    const auto lease = std::make_shared<link::Lease>(lender, lent.token);
    const auto all = std::make_shared<Collecting>(
        Collecting{std::move(lender), entry_of(lent), access, receiver});
    lease->forget();  // read() has it now
    if (!read_or_stage(surroundings, all, nullptr)) claim_and_read(surroundings, all, from, grant);
  });
}

}  // namespace tensorbus::bus
