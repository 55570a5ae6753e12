// One way from one process to another, the receiver polling: a message of the bus beside a cache
// line that both processes map.

#include <array>
#include <optional>

#include "harness/floors.hpp"

namespace {

using namespace bench;
using namespace std::chrono_literals;
using tensorbus::Outcome;
using tensorbus::bus::Loan;
using tensorbus::bus::Sample;

// Paced and timed as the bus is.
void line_one_way(TwoProcesses& both, const Pace& pace, Rows& rows) {
  Line& line = both.stage().sent;
  if (both.is_sender())
    return send_paced(
        both, pace, [] { return 0; },
        [&](int) { line.word.store(ticks_before(), std::memory_order_release); });
  Histogram latency;
  std::uint64_t before = line.word.load(std::memory_order_acquire);
  receive_paced(both, pace, latency, [&](std::uint64_t) {
    std::uint64_t sent = before;
    while ((sent = line.word.load(std::memory_order_acquire)) == before) {
    }
    const std::uint64_t now = ticks_after();
    before = sent;
    return ticks_between(sent, now);
  });
  rows.add("line, one way", latency);
}

// Sends with send(), which returns when it began, and measures until the receiver has the message
// and, apart from that, until it has read the message's first bytes.
class BusRow {
 public:
  BusRow(TwoProcesses& both, const tensorbus::bus::ParticipantRef& participant, const char* name)
      : both_(both), name_(name) {
    const std::string topic = name;
    if (both.is_sender()) {
      publisher_.emplace(topic, tensorbus::PublisherOptions{}, participant);
      require(publisher_->wait_for_subscribers(1, 10s) == Outcome::kDone, "no subscriber came");
    } else {
      const tensorbus::SubscriberOptions options{.spin = 10s};
      subscriber_.emplace(topic, options, participant);
      require(subscriber_->wait_for_publishers(1, 10s) == Outcome::kDone, "no publisher came");
    }
  }

  tensorbus::bus::Publisher& publisher() { return *publisher_; }

  template <typename Prepare, typename Send>
  void run(const Pace& pace, Rows& rows, Prepare prepare, Send send) {
    run_with(pace, rows, prepare, send, [this](Sample& sample) {
      while (subscriber_->try_receive(sample) != Outcome::kDone) {
      }
    });
  }

  // With receive(), which spins by itself.
  template <typename Prepare, typename Send>
  void run_receive(const Pace& pace, Rows& rows, Prepare prepare, Send send) {
    run_with(pace, rows, prepare, send, [this](Sample& sample) {
      require(subscriber_->receive(sample, 10s) == Outcome::kDone, "no sample came");
    });
  }

 private:
  template <typename Prepare, typename Send, typename Receive>
  void run_with(const Pace& pace, Rows& rows, Prepare prepare, Send send, Receive receive) {
    SentAt sent_at(both_);
    if (both_.is_sender())
      return send_paced(both_, pace, prepare, [&](auto& item) { sent_at.tell(send(item)); });
    Histogram latency;
    Histogram to_bytes;
    receive_paced(both_, pace, latency, [&](std::uint64_t message) {
      Sample sample;
      receive(sample);
      const std::uint64_t now = ticks_after();
      read_first_byte(sample);
      const std::uint64_t read = ticks_after();
      const std::uint64_t sent = sent_at.hear();
      if (message > pace.warm_up) to_bytes.add(ticks_between(sent, read));
      return ticks_between(sent, now);
    });
    rows.add(name_, latency);
    rows.add(std::string(name_) + ", and read", to_bytes);
  }

  static void read_first_byte(const Sample& sample) {
    const std::byte* const first =
        sample.tensors().empty() ? sample.field_bytes().data() : sample.tensor().data();
    static_cast<void>(*reinterpret_cast<const volatile unsigned char*>(first));
  }

  TwoProcesses& both_;
  const char* name_;
  std::optional<tensorbus::bus::Publisher> publisher_;
  std::optional<tensorbus::bus::Subscriber> subscriber_;
};

std::uint64_t publish_now(tensorbus::bus::Publisher& publisher, Loan& loan) {
  const std::uint64_t begin = ticks_before();
  publisher.publish(std::move(loan));
  return begin;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = Arguments::parse(count, values);
  const Pace pace{.messages = 5'000, .warm_up = 200, .pause_ns = 2'000};
  const auto nothing = [] { return 0; };

  TwoProcesses both;
  {
    const tensorbus::bus::ParticipantRef participant =
        tensorbus::bus::make_participant(both.participant_options());
    BusRow image(both, participant, "24.9 MB loan");
    BusRow image_receive(both, participant, "24.9 MB loan, receive()");
    BusRow image_and_loan(both, participant, "24.9 MB, loan() too");
    BusRow small_loan(both, participant, "64 B loan");
    BusRow small_copy(both, participant, "64 B copied");
    BusRow fields(both, participant, "48 B of fields");

    repeat_in_turns(both, arguments, [&](Rows& rows) {
      line_round_trip(both, pace, rows);
      line_one_way(both, pace, rows);
      image.run(
          pace, rows, [&] { return written_loan(image.publisher(), kImage); },
          [&](Loan& loan) { return publish_now(image.publisher(), loan); });
      image_receive.run_receive(
          pace, rows, [&] { return written_loan(image_receive.publisher(), kImage); },
          [&](Loan& loan) { return publish_now(image_receive.publisher(), loan); });
      image_and_loan.run(pace, rows, nothing, [&](int) {
        const std::uint64_t begin = ticks_before();
        image_and_loan.publisher().publish(written_loan(image_and_loan.publisher(), kImage));
        return begin;
      });
      small_loan.run(
          pace, rows, [&] { return written_loan(small_loan.publisher(), kSmall); },
          [&](Loan& loan) { return publish_now(small_loan.publisher(), loan); });
      std::array<std::byte, 64> bytes{};
      small_copy.run(pace, rows, nothing, [&](int) {
        const std::uint64_t begin = ticks_before();
        small_copy.publisher().publish(tensorbus::TensorView{bytes.data(), kSmall});
        return begin;
      });
      tensorbus::Message message;
      std::array<std::byte, 48> packed{std::byte{0xc4}, std::byte{46}};  // MessagePack: binary
      message.fields = packed;
      fields.run(pace, rows, nothing, [&](int) {
        const std::uint64_t begin = ticks_before();
        fields.publisher().publish(message);
        return begin;
      });
    });
  }
}
