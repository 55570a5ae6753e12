#include "tensorbus/bus/participant/participant.hpp"

#include <cstring>
#include <tensorbus/version.hpp>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/c/to_c.hpp"
#include "tensorbus/link/wire/control.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

void tb_library_versions(tb_versions* versions) {
  give(versions, {.struct_size = 0,
                  .major = TENSORBUS_VERSION_MAJOR,
                  .minor = TENSORBUS_VERSION_MINOR,
                  .patch = TENSORBUS_VERSION_PATCH,
                  .abi = TENSORBUS_ABI_VERSION,
                  .protocol = link::kProtocolVersion,
                  .layout = link::kLayoutVersion});
}

namespace {

ParticipantOptions options_of(const tb_participant_options& given) {
  ParticipantOptions options;
  if (given.domain != nullptr) options.domain = given.domain;
  options.budget_bytes = given.budget_bytes;
  options.cuda_budget_bytes = given.cuda_budget_bytes;
  if (given.warm_bytes != 0) options.warm_bytes = given.warm_bytes;
  if (given.segment_bytes != 0) options.segment_bytes = given.segment_bytes;
  return options;
}

}  // namespace

tb_status tb_participant_create(const tb_participant_options* options,
                                tb_participant** participant) {
  return done([&] {
    const tb_participant_options given =
        taken_or<tb_participant_options>(options, TB_PARTICIPANT_OPTIONS_INIT);
    const ParticipantOptions known = options_of(given);
    hand_out(participant, "participant", [&] {
      return new tb_participant{given.shared != 0 ? bus::shared_participant(known)
                                                  : bus::make_participant(known)};
    });
  });
}

void tb_participant_destroy(tb_participant* participant) { delete participant; }

tb_status tb_participant_id(const tb_participant* participant, uint8_t id[16]) {
  return done([&] {
    const Id found = participant_of(participant)->id();
    std::memcpy(&required(id, "id"), found.bytes.data(), found.bytes.size());
  });
}

tb_status tb_participant_domain(const tb_participant* participant, char* path, size_t bytes) {
  return done([&] {
    const std::string found = participant_of(participant)->domain_path();
    if (found.size() >= bytes)
      throw Error(Code::kInvalidArgument,
                  "bytes: the path needs " + std::to_string(found.size() + 1));
    std::memcpy(&required(path, "path"), found.c_str(), found.size() + 1);
  });
}

tb_status tb_participant_arena(const tb_participant* participant, int32_t device,
                               tb_arena_use* use) {
  return done([&] {
    const ArenaUse found = participant_of(participant)->memory_use(device_of(device));
    give(&required(use, "use"), c_stats<tb_arena_use>(found));
  });
}
