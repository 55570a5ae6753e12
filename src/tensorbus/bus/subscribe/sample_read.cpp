#include "tensorbus/bus/subscribe/sample_read.hpp"

#include <utility>

#include "tensorbus/bus/session/host_copy_request.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::bus {

Outcome SampleRead::read(Sample& sample, const platform::StopCondition& stop) {
  if (!held_) throw Error(Code::kClosed, "this sample was already read or dropped");
  try {
    if (!copies_) {
      if (read_now(sample)) return Outcome::kDone;
      ask_for_copies();
    }
    const Outcome outcome = copies_->wait(stop);
    if (outcome != Outcome::kDone) return outcome;
    held_->acquired = copies_->take();
    if (!read_now(sample)) throw Error(Code::kProtocol, "STAGED: not the requested copies");
    return Outcome::kDone;
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) held_.reset();
    throw;
  }
}

// Returns false if this process cannot reach a part of the sample.
bool SampleRead::read_now(Sample& sample) {
  if (keeps_) {
    if (!SampleData::read_held(sample, held_, how_))
      throw Error(Code::kProtocol, "the memory of an item of this process's queue is not mapped");
    held_.reset();
    return true;
  }
  switch (SampleData::read(sample, *held_, how_)) {
    case SampleData::Read::kDone:
      held_.reset();
      return true;
    case SampleData::Read::kOutOfReach:
      return false;
    case SampleData::Read::kHalfWritten:
      throw Error(Code::kClosed, "its owner died before its GPU had written the sample");
    default:
      throw Error(Code::kProtocol, "LENT: its segment was not sent");
  }
}

void SampleRead::ask_for_copies() {
  auto copies = std::make_shared<Completion<AcquiredLeases>>();
  auto tensors =
      SampleData::out_of_reach(*held_->lender, held_->descriptor, &held_->acquired, how_);
  participant_->post([copies, tensors = std::move(tensors),
                      acquired = held_->acquired](ParticipantContext& context) {
    HostCopyRequest::start(context, tensors, acquired,
                           [copies](std::variant<AcquiredLeases, Error> staged) {
                             if (const auto* error = std::get_if<Error>(&staged))
                               copies->fail(*error);
                             else
                               copies->set(std::move(std::get<AcquiredLeases>(staged)));
                           });
  });
  copies_ = std::move(copies);
}

LentRef SampleRead::give_up() noexcept {
  if (copies_) (void)copies_->give_up();
  return std::exchange(held_, nullptr);
}

}  // namespace tensorbus::bus
