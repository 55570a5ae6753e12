#include "tensorbus/bus/share.hpp"

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

tb_status tb_share_create(tb_participant* participant, const tb_message* message,
                          const tb_share_options* options, tb_share** share) {
  return done([&] {
    const Message taken_over = message_of(required(message, "message"));
    const auto given = taken_or<tb_share_options>(options, TB_SHARE_OPTIONS_INIT);
    const ShareOptions known{
        .uses = given.uses, .ttl = timeout_of(given.ttl_ns), .shared = given.shared != 0};
    bus::Shared shared = tensorbus::bus::share(taken_over, known, participant_of(participant));
    std::string text = shared.handle().text();
    hand_out(share, "share", [&] { return new tb_share{std::move(shared), std::move(text)}; });
  });
}

void tb_share_destroy(tb_share* share) { delete share; }

const char* tb_share_handle(const tb_share* share) {
  return share == nullptr ? "" : share->text.c_str();
}

int32_t tb_share_is_open(const tb_share* share) {
  bool open = false;
  (void)done([&] { open = share != nullptr && share->shared.open(); });
  return open ? 1 : 0;
}

tb_status tb_handle_check(const char* handle) {
  return done([&] { (void)bus::Handle::parse(text_of(handle, "handle")); });
}

tb_status tb_attach(tb_participant* participant, const char* handle, int32_t access,
                    int64_t timeout_ns, const tb_give_up* give_up, tb_sample** sample) {
  return guarded([&] {
    tb_sample*& target = required(sample, "sample");
    bus::Sample attached;
    const Outcome outcome = attach(attached, bus::Handle::parse(text_of(handle, "handle")),
                                   {.access = access_of(access),
                                    .timeout = timeout_of(timeout_ns),
                                    .give_up = give_up_of(give_up)},
                                   participant_of(participant));
    if (outcome == Outcome::kDone) target = sample_of(std::move(attached));
    return status_of(outcome);
  });
}

tb_status tb_empty(tb_participant* participant, const tb_layout* layout, int32_t device,
                   int32_t shared, tb_loan** memory) {
  return done([&] {
    hand_out(memory, "memory", [&] {
      return new tb_loan{empty(layout_of(required(layout, "layout")), shared != 0,
                               participant_of(participant), device_of(device))};
    });
  });
}

int32_t tb_is_shared(tb_participant* participant, const void* data, size_t bytes) {
  bool shared = false;
  (void)done([&] { shared = is_shared(data, bytes, participant_of(participant)); });
  return shared ? 1 : 0;
}
