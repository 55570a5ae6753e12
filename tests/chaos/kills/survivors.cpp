#include "survivors.hpp"

#include <poll.h>

#include <thread>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::kills {
namespace {

constexpr std::size_t kDrops = 0, kReliable = 1, kHistory = 2, kShared = 3;
constexpr int kReadersOf[] = {1, 2, 1, 2};  // of each topic, in one process
constexpr auto kSettling = 20s;             // for a reliable writer, when nobody dies

void sleep_about(Random& random, std::chrono::microseconds mean) {
  const auto most = static_cast<std::uint64_t>(2 * mean.count());
  std::this_thread::sleep_for(std::chrono::microseconds(below(random, most)));
}

// One that opens and closes: its endpoints live for some samples, its own participant as well.
class PasserBy {
 public:
  PasserBy(std::string domain, const bus::ParticipantRef& resident, std::uint64_t seed,
           Tally& tally)
      : domain_(std::move(domain)), resident_(resident), random_(seed), tally_(tally) {}

  void round(Activity& activity, bool calm) {
    if (calm) {
      activity.does("being away");
      std::this_thread::sleep_for(5ms);
      return;
    }
    activity.does("joining");
    const bus::ParticipantRef where =
        chance(random_, 30) ? bus::make_participant(participant_options(domain_)) : resident_;
    const Topic& topic = kTopics[below(random_, kTopics.size())];
    activity.does("opening");
    Reader reader(topic, {.max_held = 64}, where, tally_);
    Writer writer(topic, where, random_, tally_, 50ms);
    for (auto left = below(random_, 20); left > 0; --left) {
      activity.does("writing");
      (void)writer.write(any_form(random_));
      activity.does("reading");
      (void)reader.receive(2ms);
      reader.release_until(10);
    }
    activity.does("closing");
    if (chance(random_, 50)) reader.subscriber().close();
    reader.release_until(0);
  }

 private:
  const std::string domain_;
  const bus::ParticipantRef resident_;
  Random random_;
  Tally& tally_;
};

}  // namespace

ParticipantOptions participant_options(const std::string& domain) {
  ParticipantOptions options;
  options.domain = domain;
  options.budget_bytes = std::size_t{256} << 20;
  options.warm_bytes = std::size_t{512} << 10;
  options.segment_bytes = std::size_t{1} << 20;
  return options;
}

Survivors::Survivors(const std::string& domain, std::uint64_t seed, int processes)
    : domain_(domain), processes_(processes), random_(seed) {
  for (int i = 0; i < 3; ++i)
    participants_.push_back(bus::make_participant(participant_options(domain)));
  const auto& [first, second, third] =
      std::tie(participants_[0], participants_[1], participants_[2]);
  add_writer(kTopics[kDrops], first);
  add_writer(kTopics[kReliable], first);
  add_writer(kTopics[kHistory], second);
  add_writer(kTopics[kShared], second);

  const auto parks = [](Activity& activity, Reader& reader) {
    activity.does("parked in receive()");
    (void)reader.receive(300ms);
  };
  const auto polls = [](Activity& activity, Reader& reader) {
    activity.does("polling the descriptor");
    pollfd ready{reader.subscriber().event_descriptor(), POLLIN, 0};
    if (::poll(&ready, 1, 300) != 1) return;
    activity.does("receiving what was polled");
    while (reader.try_receive() == Outcome::kDone) {
    }
  };
  const SubscriberOptions read{.access = Access::kRead};
  const SubscriberOptions own{.access = Access::kPrivate};
  const SubscriberOptions shared{.access = Access::kShared};
  add_reader("who reads reliable", kTopics[kReliable], read, first, parks, 0);
  add_reader("who holds reliable", kTopics[kReliable], read, third, parks, 40);
  add_reader("who reads drops", kTopics[kDrops], read, third, parks, 2);
  add_reader("who polls history", kTopics[kHistory], own, third, polls, 8);
  add_reader("who shares", kTopics[kShared], shared, second, parks, 5);
  add_reader("who polls shared", kTopics[kShared], own, third, polls, 15);
  add_passer_by();
}

Survivors::~Survivors() {
  weather_.over.store(true, std::memory_order_release);
  actors_.clear();
}

void Survivors::add_writer(const Topic& topic, const bus::ParticipantRef& participant) {
  Writer& writer = writers_.emplace_back(topic, participant, random_, tally_);
  actors_.emplace_back(std::string("who writes ") + topic.name, weather_,
                       [this, &writer, random = Random(random_()), settled = std::uint64_t{0}](
                           Activity& activity, std::uint64_t calm) mutable {
                         if (calm == 0) {
                           activity.does("publishing");
                           (void)writer.write(any_form(random));
                           activity.does("pausing");
                           sleep_about(random, 1500us);
                         } else if (settled != calm) {
                           activity.does("publishing the last ones");
                           for (int i = 0; i < 6; ++i)
                             if (writer.write(Form::kSettled, kSettling) != Outcome::kDone)
                               tally_.complain("nobody died, and still there was no room");
                         } else {
                           activity.does("being calm");
                           std::this_thread::sleep_for(5ms);
                         }
                         settled = calm;
                       });
}

// Holds each sample until `holds` newer ones came; in a calm, none.
void Survivors::add_reader(const std::string& name, const Topic& topic,
                           const SubscriberOptions& options, const bus::ParticipantRef& participant,
                           std::function<void(Activity&, Reader&)> wait, std::size_t holds) {
  readers_.emplace_back(std::piecewise_construct, std::forward_as_tuple(name),
                        std::forward_as_tuple(topic, options, participant, tally_));
  Reader& reader = readers_.back().second;
  actors_.emplace_back(name, weather_, [=, &reader](Activity& activity, std::uint64_t calm) {
    wait(activity, reader);
    activity.does("letting go");
    reader.release_until(calm != 0 ? 0 : holds);
  });
}

void Survivors::add_passer_by() {
  auto passer_by = std::make_shared<PasserBy>(domain_, participants_[2], random_(), tally_);
  actors_.emplace_back("who passes by", weather_,
                       [passer_by](Activity& activity, std::uint64_t calm) {
                         passer_by->round(activity, calm != 0);
                       });
}

void Survivors::wait_for_all() {
  Activity activity("who starts");
  activity.does("waiting for all endpoints");
  for (Writer& writer : writers_) {
    const auto topic = static_cast<std::size_t>(&writer.topic() - kTopics.data());
    const auto count = static_cast<std::uint32_t>(kReadersOf[topic] * processes_);
    while (writer.publisher().wait_for_subscribers(count, 1s) != Outcome::kDone) {
    }
  }
  for (auto& [name, reader] : readers_)
    while (reader.subscriber().wait_for_publishers(static_cast<std::uint32_t>(processes_), 1s) !=
           Outcome::kDone) {
    }
}

void Survivors::calm_down() {
  Activity activity("who calms down");
  activity.does("waiting for all to be calm");
  weather_.calm.store(++calms_, std::memory_order_release);
  for (const Actor& actor : actors_)
    while (!actor.is_calm(calms_)) std::this_thread::sleep_for(1ms);
}

void Survivors::storm() {
  for (auto& [name, reader] : readers_) reader.forget();
  weather_.calm.store(0, std::memory_order_release);
}

Report Survivors::report() {
  // Who closes a subscriber also closes the connections that nobody needs any more.
  for (const bus::ParticipantRef& participant : participants_)
    bus::Subscriber("idle", {}, participant).close();
  Report report;
  report.totals = {{"published", tally_.published},
                   {"timed out", tally_.timed_out},
                   {"checked", tally_.checked},
                   {"checked again", tally_.checked_again},
                   {"wrong", tally_.wrong}};
  for (Writer& writer : writers_) {
    const std::string who = std::string("who writes ") + writer.topic().name;
    const PublisherStats stats = writer.publisher().stats();
    report.must_stay[who + ": subscribers"] = stats.subscribers;
    report.must_stay[who + ": bytes in flight"] = stats.bytes_in_flight;
    report.must_stay[who + ": bad returns"] = stats.bad_returns;
    report.must_stay[who + ": dropped unsent"] = stats.dropped_unsent;
    report.totals["dropped for newer ones"] += stats.dropped_depth;
    report.totals["dropped, too many held"] += stats.dropped_held;
    report.written[writer.topic().name][writer.name()] = writer.next() - 1;
  }
  for (auto& [name, reader] : readers_) {
    const SubscriberStats stats = reader.subscriber().stats();
    report.must_stay[name + ": publishers"] = stats.publishers;
    report.must_stay[name + ": held"] = stats.held;
    report.must_stay[name + ": bad"] = stats.bad;
    report.totals["refused"] += stats.refused;
    report.heard[name] = {reader.topic().name, reader.last()};
  }
  for (std::size_t i = 0; i < participants_.size(); ++i) {
    const ArenaUse use = participants_[i]->memory_use();
    report.must_stay["arena " + std::to_string(i) + ": bytes"] = use.used_bytes;
    report.must_stay["arena " + std::to_string(i) + ": blocks"] = use.blocks;
    report.totals["segments of its own"] += use.segments;
    report.totals["bytes reserved"] += use.reserved_bytes;
    report.participants.push_back(participants_[i]->id().hex());
  }
  const Ledger ledger = Ledger::now();
  report.must_stay.insert(ledger.counts.begin(), ledger.counts.end());
  report.segments_seen = ledger.segments_seen;
  report.segments_owned = ledger.segments_owned;
  const Resident resident = Resident::of_this_process();
  report.totals["resident bytes"] = resident.bytes;
  report.totals["anonymous bytes"] = resident.anonymous_bytes;
  return report;
}

}  // namespace tensorbus::kills
