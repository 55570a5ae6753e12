#include "tests/model/weak_memory/explorer.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace tensorbus::model {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kMaxOperations = 200;
constexpr std::array kNames = {"load",    "store", "exchange", "add",
                               "compare", "fence", "wait",     "wake"};

std::string_view name_of(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

// Returns the next weaker orders that this kind of access can have.
std::vector<std::memory_order> weaker_orders(Kind kind, std::memory_order order) {
  switch (order) {
    case std::memory_order_seq_cst:
      if (kind == Kind::kLoad) return {std::memory_order_acquire};
      if (kind == Kind::kStore) return {std::memory_order_release};
      return {std::memory_order_acq_rel};
    case std::memory_order_acq_rel:
      return {std::memory_order_acquire, std::memory_order_release};
    case std::memory_order_acquire:
    case std::memory_order_release:
      return {std::memory_order_relaxed};
    default:
      return {};
  }
}

// MurmurHash3's final mixing of each word (A. Appleby, public domain), twice with different seeds.
// The probability that two of 10^8 states have the same 128 bits is 10^-22.
std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ word >> 33) * 0xff51afd7ed558ccdULL;
  word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return word ^ word >> 33;
}

std::array<std::uint64_t, 2> key_of(const std::string& bytes) {
  std::array<std::uint64_t, 2> key{bytes.size(), ~bytes.size()};
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    bytes.copy(reinterpret_cast<char*>(&word), sizeof word, at);
    key[0] = mixed(key[0] ^ word);
    key[1] = mixed(key[1] + word);
  }
  return key;
}

}  // namespace

Explorer* Explorer::current_ = nullptr;

std::string Site::text() const {
  // A fence is one place of the code for all threads, so its text names the thread.
  const std::string whose = kind == Kind::kFence ? "thread " + std::to_string(thread) + ", " : "";
  return whose + file + ":" + std::to_string(line) + ": " + kNames[static_cast<std::size_t>(kind)] +
         " " + std::string(name_of(order)) +
         (kind == Kind::kCompare ? "/" + std::string(name_of(failure)) : "");
}

std::string Weaker::text() const {
  return site.text() + " -> " + std::string(name_of(order)) +
         (site.kind == Kind::kCompare ? "/" + std::string(name_of(failure)) : "");
}

std::vector<Weaker> weaker(const Site& site) {
  std::vector<Weaker> all;
  for (const std::memory_order order : weaker_orders(site.kind, site.order))
    all.push_back({site, order, site.failure});
  if (site.kind == Kind::kCompare)
    for (const std::memory_order failure : weaker_orders(Kind::kLoad, site.failure))
      all.push_back({site, site.order, failure});
  return all;
}

Explorer::Explorer(Scenario& scenario, const Values& later, std::optional<Weaker> planted)
    : scenario_(scenario), later_(later), planted_(std::move(planted)), stack_(kStackBytes) {}

std::string Explorer::explore() {
  Machine start;
  start.histories.reserve(kMaxLocations);
  start.threads.resize(scenario_.threads());
  enter(std::move(start));
  while (!todo_.empty() && wrong_.empty()) {
    Machine machine = std::move(todo_.back());
    todo_.pop_back();
    bool moved = false;
    for (std::size_t thread = 0; thread < machine.threads.size() && wrong_.empty(); ++thread)
      if (machine.threads[thread].status == Status::kRuns) moved = step(thread, machine) || moved;
    // If a late load has returned a value that no thread writes, this execution does not exist.
    if (!moved && wrong_.empty() && !machine.has_late_loads()) at_rest(std::move(machine));
  }
  return wrong_;
}

// Enters all states that the next operation of one thread leads to. Returns false if there are
// none.
bool Explorer::step(std::size_t thread, const Machine& from) {
  for (Machine& next : from.after_late_load(thread)) enter(std::move(next));
  Machine machine = from;
  switch (run(thread, machine)) {
    case Stopped::kFailed:
      return false;
    case Stopped::kWaits:
      return false;
    case Stopped::kAtTheEnd:
      if (from.threads[thread].late.waits) return false;
      machine.threads[thread].status = Status::kOver;
      enter(std::move(machine));
      return true;
    case Stopped::kAtOperation:
      break;
  }
  plant(thread);
  const std::size_t location = next_.at == nullptr ? 0 : location_of(next_, machine);
  static const std::set<std::uint64_t> kNothing;
  const auto found = later_.find(next_.at);
  const auto& later = found == later_.end() ? kNothing : found->second;
  for (Machine& next : machine.after(thread, next_, location, later)) {
    if (next_.at != nullptr) note_written(next.histories[location]);
    enter(std::move(next));
  }
  return true;
}

void Explorer::note_written(const std::vector<Message>& history) {
  for (const Message& message : history) written_[next_.at].insert(message.value);
}

void Explorer::enter(Machine machine) {
  machine.forget();
  if (seen_.insert(key_of(machine.bytes())).second) todo_.push_back(std::move(machine));
}

void Explorer::at_rest(Machine machine) {
  ++ends_;
  scenario_.begin();
  bool asleep = false;
  for (std::size_t thread = 0; thread < machine.threads.size(); ++thread) {
    asleep = asleep || machine.threads[thread].status == Status::kSleeps;
    (void)run(thread, machine, false);
  }
  wrong_ = scenario_.end(asleep);
}

// Runs a thread from its beginning to its next operation, which it stores in next_.
Explorer::Stopped Explorer::run(std::size_t thread, Machine& machine, bool anew) {
  if (anew) scenario_.begin();
  thread_ = thread;
  machine_ = &machine;
  repeated_ = 0;
  ::getcontext(&there_);
  there_.uc_stack.ss_sp = stack_.data();
  there_.uc_stack.ss_size = stack_.size();
  there_.uc_link = nullptr;
  current_ = this;
  ::makecontext(&there_, &Explorer::begin_thread, 0);
  ::swapcontext(&here_, &there_);
  current_ = nullptr;
  return stopped_;
}

void Explorer::begin_thread() {
  current_->scenario_.run(current_->thread_);
  current_->leave_thread(Stopped::kAtTheEnd);
}

void Explorer::leave_thread(Stopped why) {
  stopped_ = why;
  ::setcontext(&here_);
  std::abort();  // not reached
}

// Returns the result of this operation from an earlier run of the thread; empty if the operation is
// new.
std::optional<std::uint64_t> Explorer::repeat() {
  const auto& results = machine_->threads[thread_].results;
  if (repeated_ == results.size()) return std::nullopt;
  return results[repeated_++];
}

std::uint64_t Explorer::perform(const Operation& operation, std::source_location where) {
  if (const auto result = repeat()) return *result;
  if (repeated_ == kMaxOperations) fail("a thread goes on for ever");
  next_ = operation;
  if (next_.at != nullptr) next_.at = scenario_.canonical(next_.at);
  where_ = where;
  leave_thread(Stopped::kAtOperation);  // objects on this stack are not destroyed
}

void Explorer::plant(std::size_t thread) {
  const std::string_view path = where_.file_name();
  const Site site{thread,        std::string(path.substr(path.rfind('/') + 1)),
                  where_.line(), next_.kind,
                  next_.order,   next_.failure};
  sites_.insert(site);
  if (!planted_ || planted_->site != site) return;
  next_.order = planted_->order;
  next_.failure = planted_->failure;
}

std::size_t Explorer::location_of(const Operation& operation, Machine& machine) {
  const auto [found, fresh] = locations_.try_emplace(operation.at, locations_.size());
  if (fresh) {
    if (locations_.size() > kMaxLocations) throw std::length_error("kMaxLocations");
    initial_.push_back(operation.initial);
  }
  for (std::size_t i = machine.histories.size(); i < initial_.size(); ++i)
    machine.histories.push_back({{initial_[i], {}, false}});
  return found->second;
}

// Stops a thread with a late load before a plain access: the object, or the written value, may
// depend on the value of the load.
void Explorer::wait_for_late_load() {
  if (machine_->threads[thread_].late.waits) leave_thread(Stopped::kWaits);
}

PlainAccesses* Explorer::access(const void* object, bool writes) {
  const std::size_t number = objects_.try_emplace(object, objects_.size()).first->second;
  if (machine_->plain.size() <= number) machine_->plain.resize(number + 1);
  if (!machine_->access_plain(thread_, number, writes))
    fail(writes ? "memory is written while it is used" : "memory is read while it is written");
  return &machine_->plain[number];
}

void Explorer::write_plain(const void* object, std::uint64_t value) {
  if (repeat()) return;
  wait_for_late_load();
  access(object, true)->value = value;
  machine_->threads[thread_].results.push_back(value);
  ++repeated_;
}

std::uint64_t Explorer::read_plain(const void* object) {
  if (const auto result = repeat()) return *result;
  wait_for_late_load();
  const std::uint64_t value = access(object, false)->value;
  machine_->threads[thread_].results.push_back(value);
  ++repeated_;
  return value;
}

void Explorer::fail(const char* what) {
  wait_for_late_load();
  if (wrong_.empty()) wrong_ = what;
  leave_thread(Stopped::kFailed);
}

}  // namespace tensorbus::model
