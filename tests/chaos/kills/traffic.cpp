#include "traffic.hpp"

#include <cstdio>
#include <cstring>
#include <optional>
#include <tensorbus/values/value.hpp>
#include <vector>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::kills {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
// What a private reader does to the first words of a tensor: nobody else may see that.
constexpr std::uint64_t kScribble = 0x5555'5555'5555'5555ULL;
constexpr std::size_t kScribbledWords = 1500;  // three pages

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}
std::uint64_t seed_of(std::uint64_t writer, std::uint64_t sequence) {
  return mix(writer + kOdd * (sequence + 1));
}

// Words of each tensor.
std::vector<std::size_t> sizes(Form form, std::uint64_t seed) {
  const std::size_t any = 2 + seed % 500;
  switch (form) {
    case Form::kTiny:
      return {};
    case Form::kSeveral:
      return {any, 10 * any, 0, 5 + any / 2};
    case Form::kBig:
      return {100'000 + 64 * any, 3 * any};
    case Form::kSettled:
      return {64};
    case Form::kBare:
    case Form::kLoaned:
      return {any};
    case Form::kCopied:
      return {4 * any};
  }
  return {};
}
bool is_loan(Form form, std::size_t tensor) { return form != Form::kCopied && tensor % 2 == 0; }

// Says who wrote it, and all else follows from that.
std::uint64_t word(std::uint64_t writer, std::uint64_t sequence, std::size_t tensor,
                   std::size_t i) {
  if (i == 0) return writer;
  return (seed_of(writer, sequence) + tensor + i) * kOdd;
}
void fill(std::span<std::uint64_t> words, std::uint64_t writer, std::uint64_t sequence,
          std::size_t tensor) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(writer, sequence, tensor, i);
}

Value fields_of(Form form, std::uint64_t writer, std::uint64_t sequence) {
  return Value::Map{{"f", static_cast<int>(form)}, {"w", writer}, {"p", seed_of(writer, sequence)}};
}
std::uint64_t number(const Value& fields, const char* key) {
  const Value& value = fields.at(key);
  if (value.is<std::uint64_t>()) return value.as<std::uint64_t>();
  return static_cast<std::uint64_t>(value.as<std::int64_t>());
}

std::uint64_t writer_of(const bus::Sample& sample) {
  if (!sample.field_bytes().empty()) return number(sample.fields(), "w");
  return sample.tensor().as<std::uint64_t>().front();
}

// Nothing, or what is wrong with it.
std::optional<std::string> fault_of(const bus::Sample& sample, std::uint64_t writer,
                                    bool scribbled) {
  const std::uint64_t sequence = sample.header().sequence;
  Form form = Form::kBare;
  if (!sample.field_bytes().empty()) {
    const Value fields = sample.fields();
    form = static_cast<Form>(number(fields, "f"));
    if (fields != fields_of(form, writer, sequence)) return "fields of another sample";
  }
  const std::vector<std::size_t> expected = sizes(form, seed_of(writer, sequence));
  if (sample.tensors().size() != expected.size()) return "another number of tensors";
  for (std::size_t tensor = 0; tensor < expected.size(); ++tensor) {
    const auto words = sample.tensors()[tensor].as<std::uint64_t>();
    if (words.size() != expected[tensor]) return "a tensor of another size";
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool spared = form == Form::kBare && i == 0;
      const std::uint64_t mask = scribbled && !spared && i < kScribbledWords ? kScribble : 0;
      if (words[i] == (word(writer, sequence, tensor, i) ^ mask)) continue;
      return "word " + std::to_string(i) + " of " + std::to_string(words.size()) + " of tensor " +
             std::to_string(tensor) + " is " + std::to_string(words[i]);
    }
  }
  return std::nullopt;
}

std::string named(const bus::Sample& sample, const std::string& what) {
  const SampleHeader& header = sample.header();
  return std::string(header.topic) + ", sample " + std::to_string(header.sequence) + " of " +
         header.publisher.hex() + "." + std::to_string(header.publisher_number) + ": " + what;
}

}  // namespace

Form any_form(Random& random) {
  const auto draw = below(random, 100);
  if (draw < 25) return Form::kBare;
  if (draw < 40) return Form::kTiny;
  if (draw < 65) return Form::kLoaned;
  if (draw < 85) return Form::kCopied;
  return draw < 97 ? Form::kSeveral : Form::kBig;
}

void Tally::complain(const std::string& what) {
  ++wrong;
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  const std::lock_guard lock(mutex_);
  if (first_.empty()) first_ = what;
}
std::string Tally::first_complaint() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

Writer::Writer(const Topic& topic, const bus::ParticipantRef& participant, Random& random,
               Tally& tally, std::chrono::nanoseconds timeout)
    : topic_(&topic),
      name_(random() | std::uint64_t{1} << 63),  // of one encoded size
      timeout_(timeout),
      tally_(&tally),
      publisher_(topic.name, topic.options, participant) {}

Outcome Writer::write(Form form, std::chrono::nanoseconds timeout) {
  const std::uint64_t sequence = next();
  const Published published = send(form, timeout);
  if (published.outcome == Outcome::kTimedOut) ++tally_->timed_out;
  if (published.outcome != Outcome::kDone) return published.outcome;
  ++tally_->published;
  if (published.sequence != sequence)
    tally_->complain(std::string(topic_->name) + ": published as " +
                     std::to_string(published.sequence) + ", expected " + std::to_string(sequence));
  next_.store(sequence + 1, std::memory_order_release);
  return Outcome::kDone;
}

Published Writer::send(Form form, std::chrono::nanoseconds timeout) {
  const std::uint64_t sequence = next();
  const std::vector<std::size_t> words = sizes(form, seed_of(name_, sequence));
  std::vector<bus::Loan> loans;
  std::deque<std::vector<std::uint64_t>> own;
  Message message;
  for (std::size_t tensor = 0; tensor < words.size(); ++tensor) {
    Dims shape{static_cast<std::int64_t>(words[tensor])};
    if (is_loan(form, tensor) && words[tensor] != 0) {
      loans.push_back(publisher_.loan<std::uint64_t>(std::move(shape)));
      fill(loans.back().as<std::uint64_t>(), name_, sequence, tensor);
      message.tensors.push_back(loans.back().view());
    } else {
      fill(own.emplace_back(words[tensor]), name_, sequence, tensor);
      message.tensors.push_back(TensorView::of(own.back().data(), std::move(shape)));
    }
  }
  if (form == Form::kBare) return publisher_.publish(std::move(loans.front()));
  const std::vector<std::byte> fields = fields_of(form, name_, sequence).encode();
  message.fields = fields;
  return publisher_.publish(message, timeout);
}

Reader::Reader(const Topic& topic, const SubscriberOptions& options,
               const bus::ParticipantRef& participant, Tally& tally)
    : topic_(&topic),
      access_(options.access),
      tally_(&tally),
      subscriber_(topic.name, options, participant) {}

Reader::~Reader() { release_until(0); }

Outcome Reader::receive(std::chrono::nanoseconds timeout) {
  bus::Sample sample;
  const Outcome outcome = subscriber_.receive(sample, timeout);
  return accept(outcome, sample);
}
Outcome Reader::try_receive() {
  bus::Sample sample;
  const Outcome outcome = subscriber_.try_receive(sample);
  return accept(outcome, sample);
}

Outcome Reader::accept(Outcome outcome, bus::Sample& sample) {
  if (outcome != Outcome::kDone) return outcome;
  ++tally_->checked;
  try {
    check_order(sample, writer_of(sample));
  } catch (const Error& error) {
    tally_->complain(named(sample, error.what()));
  }
  check(sample, false);
  if (access_ != Access::kRead) scribble(sample);
  held_.push_back(std::move(sample));
  return outcome;
}

void Reader::check_order(const bus::Sample& sample, std::uint64_t writer) {
  const SampleHeader& header = sample.header();
  const std::lock_guard lock(mutex_);
  const auto [at, first] = heard_.try_emplace({header.publisher, header.publisher_number},
                                              Heard{writer, header.sequence});
  if (first) return;
  if (at->second.writer != writer) tally_->complain(named(sample, "of another writer"));
  if (header.sequence <= at->second.last)
    tally_->complain(named(sample, "came after " + std::to_string(at->second.last)));
  if (topic_->options.reliable && header.sequence > at->second.last + 1)
    tally_->complain(named(sample, "lost since " + std::to_string(at->second.last)));
  at->second.last = header.sequence;
}

void Reader::check(const bus::Sample& sample, bool scribbled) {
  try {
    if (const auto fault = fault_of(sample, writer_of(sample), scribbled))
      tally_->complain(named(sample, *fault));
  } catch (const Error& error) {
    tally_->complain(named(sample, error.what()));
  }
}

// A private one changes what it got, a shared one writes the same again: others look at it.
void Reader::scribble(const bus::Sample& sample) const {
  const std::uint64_t mask = access_ == Access::kPrivate ? kScribble : 0;
  const std::size_t first = sample.field_bytes().empty() ? 1 : 0;  // a bare one's says who wrote it
  for (const bus::Tensor& tensor : sample.tensors()) {
    const auto words = tensor.as_mutable<std::uint64_t>();
    const std::size_t end = std::min(words.size(), kScribbledWords);
    for (std::size_t i = first; i < end; ++i) {
      const std::atomic_ref<std::uint64_t> word_here(words[i]);
      word_here.store(word_here.load(std::memory_order_relaxed) ^ mask, std::memory_order_relaxed);
    }
  }
}

void Reader::release_until(std::size_t count) {
  for (; held_.size() > count; held_.pop_front()) {
    ++tally_->checked_again;
    check(held_.front(), access_ == Access::kPrivate);
  }
}

std::map<std::uint64_t, std::uint64_t> Reader::last() const {
  const std::lock_guard lock(mutex_);
  std::map<std::uint64_t, std::uint64_t> last;
  for (const auto& [publisher, heard] : heard_) last[heard.writer] = heard.last;
  return last;
}
void Reader::forget() {
  const std::lock_guard lock(mutex_);
  heard_.clear();
}

}  // namespace tensorbus::kills
