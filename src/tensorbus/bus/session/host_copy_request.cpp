#include "tensorbus/bus/session/host_copy_request.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "tensorbus/bus/session/patient_request.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {

void AcquiredLeases::point_at_copies(tensor::Descriptor& descriptor) const {
  for (const HostCopiedTensor& copy : staged) {
    if (copy.tensor >= descriptor.tensors.size())
      throw Error(Code::kProtocol, "sample: it has changed");
    tensor::TensorEntry& entry = descriptor.tensors[copy.tensor];
    entry.kind = memory::BufferKind::kHost;
    entry.owner = static_cast<std::uint16_t>(copy.lender + 1);
    entry.segment = copy.segment;
    entry.offset = copy.offset;
    entry.generation = copy.generation;
  }
}

void HostCopyRequest::start(ParticipantContext& context, const std::vector<OutOfReach>& tensors,
                            AcquiredLeases acquired, OnStaged on_staged) {
  const std::shared_ptr<HostCopyRequest> self(
      new HostCopyRequest(context, std::move(acquired), std::move(on_staged)));
  for (const OutOfReach& tensor : tensors) self->add(tensor);
  self->waiting_for_ = self->parts_.size() + 1;  // plus one: does not end before all are sent
  for (const Part& part : self->parts_) self->ask(part);
  self->one_done();
}

void HostCopyRequest::add(const OutOfReach& tensor) {
  const auto same_block = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.owner == tensor.owner && part.first.segment == tensor.first.segment &&
           part.first.generation == tensor.first.generation;
  });
  if (same_block == parts_.end()) {
    parts_.push_back({tensor.owner, tensor.first, tensor.bytes, {tensor}});
    return;
  }
  Part& part = *same_block;
  const std::uint64_t end =
      std::max(part.first.offset + part.bytes, tensor.first.offset + tensor.bytes);
  part.first.offset = std::min(part.first.offset, tensor.first.offset);
  part.bytes = end - part.first.offset;
  part.tensors.push_back(tensor);
}

void HostCopyRequest::ask(const Part& part) {
  const auto reached = std::make_shared<std::shared_ptr<link::PeerMemory>>();
  (void)PatientRequest::start(
      context_, part.owner, PatientRequest::kPatience,
      [&part, reached](const std::shared_ptr<PeerSession>& session,
                       PeerSession::OnAnswer on_answer) {
        *reached = session->peer_memory();
        session->stage(part.first, part.bytes, std::move(on_answer));
      },
      [self = shared_from_this(), &part, reached](PeerSession::Answer& answer) {
        self->guarded([&] {
          if (const auto* error = std::get_if<Error>(&answer)) throw *error;
          self->take(part, *reached, std::get<link::Staged>(answer));
          self->one_done();
        });
      },
      "the owner of a tensor has died, and this process cannot use the GPU of that tensor");
}

void HostCopyRequest::take(const Part& part, const std::shared_ptr<link::PeerMemory>& peer_memory,
                           const link::Staged& staged) {
  auto source = std::make_shared<const link::Source>(link::Source{part.owner, 0, {}});
  auto lender = std::make_shared<link::MessageLeaseSource>(
      std::move(source), peer_memory, memory::Grant::kRead, context_.lent, staged.token);
  const auto lease = std::make_shared<link::Lease>(lender, staged.token);
  for (const OutOfReach& tensor : part.tensors)
    acquired_.staged.push_back(
        {.tensor = tensor.tensor,
         .lender = acquired_.lenders.size(),
         .segment = staged.copy.segment,
         .offset = staged.copy.offset + (tensor.first.offset - part.first.offset) + tensor.to_data,
         .generation = staged.copy.generation,
         .from = Device::cuda(static_cast<int>(staged.device)),
         .lease = lease});
  acquired_.lenders.push_back(std::move(lender));
}

void HostCopyRequest::one_done() {
  if (--waiting_for_ == 0 && on_staged_) std::exchange(on_staged_, {})(std::move(acquired_));
}

void HostCopyRequest::fail(const Error& error) {
  if (on_staged_) std::exchange(on_staged_, {})(error);
}

template <typename Work>
void HostCopyRequest::guarded(Work work) {
  try {
    work();
  } catch (const Error& error) {
    fail(error);
  } catch (const std::bad_alloc&) {
    fail(Error(Code::kOutOfMemory, "no memory to request a copy of device memory"));
  }
}

}  // namespace tensorbus::bus
