#include "tensorbus/bus/subscriber.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/c/to_c.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

namespace {

SubscriberOptions options_of(const tb_subscriber_options& given) {
  return {.depth = given.depth,
          .max_held = given.max_held,
          .reliable = given.best_effort == 0,
          .end_of_stream = given.end_of_stream != 0,
          .spin = timeout_of(given.spin_ns),
          .access = access_of(given.access),
          .type = type_of(given.type),
          .pin = given.pin != 0,
          .device = given.restores != 0 ? std::optional(device_of(given.device)) : std::nullopt,
          .node = given.node == nullptr ? "" : given.node};
}

}  // namespace

tb_status tb_subscriber_create(tb_participant* participant, const char* topic,
                               const tb_subscriber_options* options, tb_subscriber** subscriber) {
  return done([&] {
    const auto given = taken_or<tb_subscriber_options>(options, TB_SUBSCRIBER_OPTIONS_INIT);
    hand_out(subscriber, "subscriber", [&] {
      return new tb_subscriber{bus::ForkSafe<bus::Subscriber>(
          std::in_place, text_of(topic, "topic"), options_of(given), participant_of(participant))};
    });
  });
}

void tb_subscriber_destroy(tb_subscriber* subscriber) { delete subscriber; }

tb_status tb_subscriber_receive(tb_subscriber* subscriber, int64_t timeout_ns,
                                const tb_give_up* give_up, tb_sample** sample) {
  return guarded([&] {
    bus::Subscriber& from = *required(subscriber, "subscriber").subscriber;
    tb_sample*& target = required(sample, "sample");
    bus::Sample received;
    const Outcome outcome = timeout_ns <= 0 ? from.try_receive(received)
                                            : from.receive(received, stop_of(timeout_ns, give_up));
    if (outcome == Outcome::kDone) target = sample_of(std::move(received));
    return status_of(outcome);
  });
}

tb_status tb_subscriber_receive_many(tb_subscriber* subscriber, tb_sample** samples,
                                     size_t capacity, int64_t timeout_ns, const tb_give_up* give_up,
                                     size_t* count) {
  return guarded([&] {
    bus::Subscriber& from = *required(subscriber, "subscriber").subscriber;
    std::size_t& given = required(count, "count") = 0;
    if (capacity != 0) (void)required(samples, "samples");
    std::array<bus::Sample, 64> few;
    std::vector<bus::Sample> many(capacity > few.size() ? capacity : 0);
    const auto room = many.empty() ? std::span(few).first(capacity) : std::span(many);
    std::size_t taken = 0;
    const Outcome outcome = from.receive_many(room, taken, stop_of(timeout_ns, give_up));
    for (bus::Sample& sample : room.first(taken)) samples[given++] = sample_of(std::move(sample));
    return status_of(outcome);
  });
}

tb_status tb_subscriber_receive_into(tb_subscriber* subscriber, void* rows, const tb_layout* layout,
                                     int64_t timeout_ns, const tb_give_up* give_up, size_t* count) {
  return guarded([&] {
    bus::Subscriber& from = *required(subscriber, "subscriber").subscriber;
    std::size_t& given = required(count, "count") = 0;
    (void)required(static_cast<std::byte*>(rows), "rows");
    return status_of(from.receive_into(rows, layout_of(required(layout, "layout")), given,
                                       stop_of(timeout_ns, give_up)));
  });
}

int32_t tb_subscriber_ready(tb_subscriber* subscriber) {
  int32_t ready = 0;
  (void)done([&] { ready = required(subscriber, "subscriber").subscriber->ready() ? 1 : 0; });
  return ready;
}

tb_status tb_subscriber_event_descriptor(tb_subscriber* subscriber, int* descriptor) {
  return done([&] {
    required(descriptor, "descriptor") =
        required(subscriber, "subscriber").subscriber->event_descriptor();
  });
}

tb_status tb_subscriber_wait_for_publishers(tb_subscriber* subscriber, uint32_t count,
                                            int64_t timeout_ns) {
  return guarded([&] {
    return status_of(required(subscriber, "subscriber")
                         .subscriber->wait_for_publishers(count, stop_of(timeout_ns)));
  });
}

tb_status tb_subscriber_get_stats(const tb_subscriber* subscriber, tb_subscriber_stats* stats) {
  return done([&] {
    const SubscriberStats found = required(subscriber, "subscriber").subscriber->stats();
    give(&required(stats, "stats"), c_stats<tb_subscriber_stats>(found));
  });
}

tb_status tb_subscriber_last_refusal(const tb_subscriber* subscriber, char* text, size_t bytes) {
  return done([&] {
    const std::string why = required(subscriber, "subscriber").subscriber->stats().last_refusal;
    if (bytes == 0) return;
    const std::size_t kept = std::min(why.size(), bytes - 1);
    std::memcpy(&required(text, "text"), why.data(), kept);
    text[kept] = '\0';
  });
}

void tb_subscriber_close(tb_subscriber* subscriber) {
  (void)done([&] { required(subscriber, "subscriber").subscriber->close(); });
}
