#include "tensorbus/bus/reading.hpp"

#include <utility>

#include "tensorbus/bus/sample_parts.hpp"
#include "tensorbus/bus/staging.hpp"

namespace tensorbus::bus {

Outcome Reading::read(Sample& sample, std::chrono::nanoseconds timeout, const GiveUp& give_up) {
  if (!held_) throw Error(Code::kClosed, "this was read, or given up");
  try {
    if (!copies_) {
      if (read_now(sample)) return Outcome::kDone;
      ask_for_copies();
    }
    const Outcome outcome = copies_->wait(timeout, give_up);
    if (outcome != Outcome::kDone) return outcome;
    held_->claimed = copies_->take();
    if (!read_now(sample)) throw Error(Code::kProtocol, "STAGED: not what was asked for");
    return Outcome::kDone;
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) held_.reset();
    throw;
  }
}

// False: some of it is out of reach.
bool Reading::read_now(Sample& sample) {
  switch (SampleParts::read(sample, *held_, how_)) {
    case SampleParts::Read::kDone:
      held_.reset();
      return true;
    case SampleParts::Read::kOutOfReach:
      return false;
    case SampleParts::Read::kHalfWritten:
      throw Error(Code::kClosed, "its owner died before the GPU had written it");
    default:
      throw Error(Code::kProtocol, "LENT: a segment that never came");
  }
}

void Reading::ask_for_copies() {
  auto copies = std::make_shared<Awaited<Claimed>>();
  auto tensors = SampleParts::out_of_reach(*held_->lender, held_->descriptor, &held_->claimed);
  core_->post([copies, tensors = std::move(tensors),
               claimed = held_->claimed](Surroundings& surroundings) {
    Staging::start(surroundings, tensors, claimed, [copies](std::variant<Claimed, Error> staged) {
      if (const auto* error = std::get_if<Error>(&staged))
        copies->fail(*error);
      else
        copies->set(std::move(std::get<Claimed>(staged)));
    });
  });
  copies_ = std::move(copies);
}

HeldRef Reading::give_up() noexcept {
  if (copies_) (void)copies_->give_up();
  return std::exchange(held_, nullptr);
}

}  // namespace tensorbus::bus
