#include "tensorbus/bus/queue.hpp"

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/c/to_c.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

namespace {

using QueueHandle = bus::ForkSafe<bus::Queue>;

bus::Queue& queue_of(tb_queue* queue) { return *required(queue, "queue").queue; }

QueueOptions options_of(const tb_queue_options* options) {
  const auto given = taken_or<tb_queue_options>(options, TB_QUEUE_OPTIONS_INIT);
  return {.maxsize = given.maxsize,
          .redeliver = given.redeliver != 0,
          .shared = given.shared != 0,
          .name = given.name == nullptr ? "" : given.name,
          .max_bytes = given.max_bytes,
          .pin = given.pin != 0};
}

tb_status started(bus::Queue::Pending pending, tb_pending** target) {
  (void)pending.descriptor();  // made here, because this call can report an error
  hand_out(target, "pending", [&] { return new tb_pending{std::move(pending)}; });
  return TB_OK;
}

}  // namespace

tb_status tb_queue_create(tb_participant* participant, const tb_queue_options* options,
                          tb_queue** queue) {
  return done([&] {
    hand_out(queue, "queue", [&] {
      return new tb_queue{
          QueueHandle(std::in_place, options_of(options), participant_of(participant))};
    });
  });
}

tb_status tb_queue_open(tb_participant* participant, const char* address_or_name,
                        int64_t timeout_ns, const tb_give_up* give_up, tb_queue** queue) {
  return done([&] {
    hand_out(queue, "queue", [&] {
      return new tb_queue{
          QueueHandle(std::in_place,
                      bus::Queue::open(text_of(address_or_name, "address_or_name"),
                                       stop_of(timeout_ns, give_up), participant_of(participant)))};
    });
  });
}

tb_status tb_queue_at(tb_participant* participant, const char* address,
                      const tb_queue_options* options, tb_queue** queue) {
  return done([&] {
    hand_out(queue, "queue", [&] {
      return new tb_queue{QueueHandle(
          std::in_place, bus::Queue::at(text_of(address, "address"), options_of(options),
                                        participant_of(participant)))};
    });
  });
}

tb_status tb_queue_pin(tb_queue* queue) {
  return done([&] { queue_of(queue).pin(); });
}

void tb_queue_destroy(tb_queue* queue) { delete queue; }

const char* tb_queue_address(const tb_queue* queue) {
  const char* address = "";
  (void)done([&] {
    if (queue != nullptr) address = queue->queue->address().c_str();
  });
  return address;
}

tb_status tb_queue_get_options(const tb_queue* queue, tb_queue_options* options) {
  return done([&] {
    const QueueOptions& found = required(queue, "queue").queue->options();
    give(&required(options, "options"), {.struct_size = 0,
                                         .maxsize = found.maxsize,
                                         .redeliver = found.redeliver ? 1 : 0,
                                         .shared = found.shared ? 1 : 0,
                                         .name = found.name.c_str(),
                                         .max_bytes = found.max_bytes,
                                         .pin = found.pin ? 1 : 0,
                                         .reserved = 0});
  });
}

int32_t tb_queue_made_here(const tb_queue* queue) {
  bool made_here = false;
  (void)done([&] { made_here = queue != nullptr && queue->queue->made_here(); });
  return made_here ? 1 : 0;
}

tb_status tb_queue_put(tb_queue* queue, const tb_message* item, int64_t timeout_ns,
                       const tb_give_up* give_up) {
  return guarded([&] {
    const Message taken_over = message_of(required(item, "item"));
    return status_of(queue_of(queue).put(taken_over, stop_of(timeout_ns, give_up)));
  });
}

tb_status tb_queue_put_now(tb_queue* queue, const tb_message* item) {
  return guarded([&] {
    const Message taken_over = message_of(required(item, "item"));
    return queue_of(queue).put_now(taken_over) ? TB_OK : TB_TIMED_OUT;
  });
}

tb_status tb_queue_get(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up,
                       tb_sample** item) {
  return guarded([&] {
    tb_sample*& target = required(item, "item");
    bus::Sample got;
    const Outcome outcome = queue_of(queue).get(got, stop_of(timeout_ns, give_up));
    if (outcome == Outcome::kDone) target = sample_of(std::move(got));
    return status_of(outcome);
  });
}

tb_status tb_queue_task_done(tb_queue* queue, const tb_give_up* give_up) {
  return done([&] { queue_of(queue).task_done(give_up_of(give_up)); });
}

tb_status tb_queue_join(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up) {
  return guarded([&] { return status_of(queue_of(queue).join(stop_of(timeout_ns, give_up))); });
}

tb_status tb_queue_get_stats(const tb_queue* queue, const tb_give_up* give_up,
                             tb_queue_stats* stats) {
  return done([&] {
    const QueueStats found = required(queue, "queue").queue->stats(give_up_of(give_up));
    give(&required(stats, "stats"), c_stats<tb_queue_stats>(found));
  });
}

tb_status tb_queue_shutdown(tb_queue* queue, int32_t immediate, const tb_give_up* give_up) {
  return done([&] { queue_of(queue).shutdown(immediate != 0, give_up_of(give_up)); });
}

tb_status tb_queue_drain(tb_queue* queue, int64_t timeout_ns, const tb_give_up* give_up) {
  return guarded([&] { return status_of(queue_of(queue).drain(stop_of(timeout_ns, give_up))); });
}

tb_status tb_queue_close(tb_queue* queue, const tb_give_up* give_up) {
  return done([&] { queue_of(queue).close(give_up_of(give_up)); });
}

tb_status tb_queue_start_put(tb_queue* queue, const tb_message* item, tb_pending** pending) {
  return guarded([&] {
    const Message taken_over = message_of(required(item, "item"));
    return started(queue_of(queue).start_put(taken_over), pending);
  });
}

tb_status tb_queue_start_get(tb_queue* queue, tb_pending** pending) {
  return guarded([&] { return started(queue_of(queue).start_get(), pending); });
}

tb_status tb_queue_start_join(tb_queue* queue, tb_pending** pending) {
  return guarded([&] { return started(queue_of(queue).start_join(), pending); });
}

tb_status tb_queue_get_while(tb_queue* queue, const tb_pending* unanswered, int64_t timeout_ns,
                             const tb_give_up* give_up, tb_sample** item) {
  return guarded([&] {
    tb_sample*& target = required(item, "item");
    const bus::Queue::Pending& other = required(unanswered, "unanswered").pending;
    bus::Sample got;
    const Outcome outcome = queue_of(queue).get_while(got, other, stop_of(timeout_ns, give_up));
    if (outcome == Outcome::kDone) target = sample_of(std::move(got));
    return status_of(outcome);
  });
}

void tb_pending_destroy(tb_pending* pending) { delete pending; }

int tb_pending_descriptor(const tb_pending* pending) {
  return pending == nullptr ? -1 : pending->pending.descriptor();
}

tb_status tb_pending_take(tb_pending* pending, tb_sample** item) {
  return guarded([&] {
    bus::Queue::Pending& asked = required(pending, "pending").pending;
    if (asked.is_get()) (void)required(item, "item");
    bus::Sample got;
    const Outcome outcome = asked.take(got);
    if (outcome == Outcome::kDone && asked.is_get()) *item = sample_of(std::move(got));
    return status_of(outcome);
  });
}
