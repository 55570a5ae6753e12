#include <array>
#include <span>

#include "tensorbus/c/guard.hpp"
#include "tensorbus/c/objects.hpp"
#include "tensorbus/c/structs.hpp"
#include "tensorbus/c/to_c.hpp"
#include "tensorbus/link/trace/trace_parents.hpp"

using namespace tensorbus;
using namespace tensorbus::c;

namespace {

PublisherOptions options_of(const tb_publisher_options& given) {
  return {.depth = given.depth,
          .history = given.history,
          .reliable = given.reliable != 0,
          .timeout = timeout_of(given.timeout_ns),
          .lag_timeout = given.lag_timeout_ns == 0 ? std::chrono::nanoseconds::max()
                                                   : std::chrono::nanoseconds(given.lag_timeout_ns),
          .shared = given.shared != 0,
          .isolated = given.isolated != 0,
          .type = type_of(given.type),
          .node = given.node == nullptr ? "" : given.node};
}

tb_status give_result(const Published& published, tb_published* target) {
  give(target,
       {.struct_size = 0, .subscribers = published.subscribers, .sequence = published.sequence});
  return status_of(published.outcome);
}

}  // namespace

tb_status tb_publisher_create(tb_participant* participant, const char* topic,
                              const tb_publisher_options* options, tb_publisher** publisher) {
  return done([&] {
    const auto given = taken_or<tb_publisher_options>(options, TB_PUBLISHER_OPTIONS_INIT);
    hand_out(publisher, "publisher", [&] {
      return new tb_publisher{bus::ForkSafe<bus::Publisher>(
          std::in_place, text_of(topic, "topic"), options_of(given), participant_of(participant))};
    });
  });
}

void tb_publisher_destroy(tb_publisher* publisher) { delete publisher; }

tb_status tb_publisher_loan(tb_publisher* publisher, const tb_layout* layout, int32_t device,
                            tb_loan** loan) {
  return done([&] {
    hand_out(loan, "loan", [&] {
      return new tb_loan{
          required(publisher, "publisher")
              .publisher->loan(layout_of(required(layout, "layout")), device_of(device))};
    });
  });
}

tb_status tb_publisher_publish_loan(tb_publisher* publisher, tb_loan** loan, void* stream,
                                    tb_published* published) {
  return guarded([&] {
    tb_loan*& given = required(loan, "loan");
    const Published done =
        required(publisher, "publisher")
            .publisher->publish(std::move(required(given, "*loan").loan), stream);
    if (done.outcome == Outcome::kDone) delete std::exchange(given, nullptr);
    return give_result(done, published);
  });
}

tb_status tb_publisher_publish(tb_publisher* publisher, const tb_message* message,
                               tb_published* published) {
  return guarded([&] {
    const Message taken_over = message_of(required(message, "message"));
    return give_result(required(publisher, "publisher").publisher->publish(taken_over), published);
  });
}

tb_status tb_publisher_publish_within(tb_publisher* publisher, const tb_message* message,
                                      int64_t timeout_ns, const tb_give_up* give_up,
                                      tb_published* published) {
  return guarded([&] {
    const Message taken_over = message_of(required(message, "message"));
    return give_result(required(publisher, "publisher")
                           .publisher->publish(taken_over, stop_of(timeout_ns, give_up)),
                       published);
  });
}

tb_status tb_publisher_publish_many(tb_publisher* publisher, const tb_tensor* rows,
                                    int64_t timeout_ns, const tb_give_up* give_up,
                                    tb_published_many* published) {
  return guarded([&] {
    const TensorView view = view_of(required(rows, "rows"));
    const PublishedMany done = required(publisher, "publisher")
                                   .publisher->publish_many(view, stop_of(timeout_ns, give_up));
    give(published, {.struct_size = 0,
                     .subscribers = done.subscribers,
                     .count = done.count,
                     .sequence = done.sequence});
    return status_of(done.outcome);
  });
}

tb_status tb_publisher_wait_for_subscribers(tb_publisher* publisher, uint32_t count,
                                            int64_t timeout_ns) {
  return guarded([&] {
    return status_of(required(publisher, "publisher")
                         .publisher->wait_for_subscribers(count, stop_of(timeout_ns)));
  });
}

tb_status tb_publisher_get_stats(const tb_publisher* publisher, tb_publisher_stats* stats) {
  return done([&] {
    const PublisherStats found = required(publisher, "publisher").publisher->stats();
    give(&required(stats, "stats"), c_stats<tb_publisher_stats>(found));
  });
}

void tb_publisher_close(tb_publisher* publisher) {
  (void)done([&] { required(publisher, "publisher").publisher->close(); });
}

void tb_name_parents(const tb_sample* const* samples, uint32_t count) {
  std::array<link::SampleName, link::TraceParents::kMax> names;
  std::size_t named = 0;
  for (std::uint32_t i = 0; i < count && named < names.size(); ++i) {
    if (samples == nullptr || samples[i] == nullptr) continue;
    const SampleHeader& header = samples[i]->sample.header();
    names[named++] = {header.publisher, header.publisher_number, header.sequence};
  }
  link::TraceParents::name(std::span(names).first(named));
}
