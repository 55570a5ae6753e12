#include "tests/model/weak_memory/machine.hpp"

#include <algorithm>
#include <utility>

namespace tensorbus::model {
namespace {

constexpr bool is_consistent(std::memory_order order) { return order == std::memory_order_seq_cst; }

template <typename Word>
void append(std::string& bytes, const Word& word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
}

bool may_overtake(const Operation& operation, std::size_t location, const Late& late) {
  if (operation.kind == Kind::kFence || operation.kind == Kind::kWait ||
      operation.kind == Kind::kWake)
    return false;
  return location != late.location && !releases(operation.order);
}

std::uint64_t written_by(const Operation& operation, std::uint64_t before) {
  return operation.kind == Kind::kAdd ? before + operation.value : operation.value;
}

}  // namespace

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         is_consistent(order);
}

bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         is_consistent(order);
}

void View::join_places(const View& other) {
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = std::max(places[i], other.places[i]);
}

void View::join(const View& other) {
  join_places(other);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = std::max(steps[i], other.steps[i]);
}

bool View::is_within(const View& other) const {
  const auto is_no_later = [](std::uint8_t one, std::uint8_t that) { return one <= that; };
  return std::equal(places.begin(), places.end(), other.places.begin(), is_no_later) &&
         std::equal(steps.begin(), steps.end(), other.steps.begin(), is_no_later);
}

std::vector<Machine> Machine::after(std::size_t thread, const Operation& operation,
                                    std::size_t location,
                                    const std::set<std::uint64_t>& later) const {
  std::vector<Machine> all;
  if (threads[thread].late.waits && !may_overtake(operation, location, threads[thread].late))
    return all;
  Machine base = *this;
  ++base.threads[thread].now.steps[thread];
  switch (operation.kind) {
    case Kind::kLoad:
      base.load(all, thread, location, operation.order, nullptr);
      base.load_late(all, thread, location, operation.order, nullptr, later);
      break;
    case Kind::kStore:
      base.store(all, thread, location, operation);
      break;
    case Kind::kCompare:
      base.load(all, thread, location, operation.failure, &operation.expected);
      base.load_late(all, thread, location, operation.failure, &operation.expected, later);
      [[fallthrough]];
    case Kind::kExchange:
    case Kind::kAdd:
      base.exchange(all, thread, location, operation);
      break;
    case Kind::kFence:
      base.fence(thread, operation.order);
      base.threads[thread].results.push_back(0);
      all.push_back(std::move(base));
      break;
    case Kind::kWait:  // the kernel compares under a lock that a waker takes, too
      base.see(thread, location, base.histories[location].size() - 1, std::memory_order_relaxed);
      if (base.histories[location].back().value == operation.value) {
        base.threads[thread].status = Status::kSleeps;
        base.threads[thread].sleeps_at = static_cast<std::uint8_t>(location);
      }
      base.threads[thread].results.push_back(0);
      all.push_back(std::move(base));
      break;
    case Kind::kWake:
      for (Thread& other : base.threads)
        if (other.status == Status::kSleeps && other.sleeps_at == location)
          other.status = Status::kRuns;
      base.threads[thread].results.push_back(0);
      all.push_back(std::move(base));
      break;
  }
  return all;
}

// [atomics.order] 4: a sequentially consistent access reads no message that is older than the
// messages that accesses and fences before it in S have read, written or seen.
std::size_t Machine::oldest(std::size_t thread, std::size_t location,
                            std::memory_order order) const {
  const std::size_t known = threads[thread].now.places[location];
  return is_consistent(order) ? std::max<std::size_t>(known, consistent.places[location]) : known;
}

void Machine::see(std::size_t thread, std::size_t location, std::size_t place,
                  std::memory_order order) {
  Thread& reader = threads[thread];
  const auto at = static_cast<std::uint8_t>(place);
  reader.now.places[location] = std::max(reader.now.places[location], at);
  const View& passed_on = histories[location][place].view;
  if (acquires(order)) reader.now.join(passed_on);
  reader.acquired.join(reader.now);
  reader.acquired.join(passed_on);
  if (is_consistent(order)) consistent.places[location] = std::max(consistent.places[location], at);
}

// Returns true if an older message has the same value and a smaller view. Then the newer one need
// not be read: a thread with a smaller view may read more, so every later execution is also
// possible after a read of the older message.
bool Machine::tells_more(std::size_t location, std::size_t place, std::size_t first) const {
  const std::vector<Message>& history = histories[location];
  for (std::size_t older = first; older < place; ++older)
    if (history[older].value == history[place].value &&
        history[older].view.is_within(history[place].view))
      return true;
  return false;
}

// `unless`: the one value that a failed comparison cannot read.
void Machine::load(std::vector<Machine>& all, std::size_t thread, std::size_t location,
                   std::memory_order order, const std::uint64_t* unless) const {
  const std::vector<Message>& history = histories[location];
  const std::size_t first = oldest(thread, location, order);
  for (std::size_t place = first; place < history.size(); ++place) {
    if (unless != nullptr && history[place].value == *unless) continue;
    if (tells_more(location, place, first)) continue;
    Machine next = *this;
    next.see(thread, location, place, order);
    next.threads[thread].results.push_back(history[place].value);
    all.push_back(std::move(next));
  }
}

template <typename Change>
void Machine::for_each_view(Change change) {
  for (auto& history : histories)
    for (Message& message : history) change(message.view);
  for (Thread& thread : threads)
    for (View* view : {&thread.now, &thread.acquired, &thread.released}) change(*view);
  change(consistent);
}

void Machine::load_late(std::vector<Machine>& all, std::size_t thread, std::size_t location,
                        std::memory_order order, const std::uint64_t* unless,
                        const std::set<std::uint64_t>& later) const {
  if (order != std::memory_order_relaxed || threads[thread].late.waits) return;
  const std::vector<Message>& history = histories[location];
  const auto first =
      history.begin() + static_cast<std::ptrdiff_t>(threads[thread].now.places[location]);
  for (const std::uint64_t value : later) {
    if (unless != nullptr && value == *unless) continue;
    // The value can be read at once: that allows every execution that a late load allows.
    if (std::any_of(first, history.end(), [&](const Message& one) { return one.value == value; }))
      continue;
    Machine next = *this;
    next.threads[thread].late = {static_cast<std::uint8_t>(location),
                                 static_cast<std::uint8_t>(history.size()), true, value};
    next.threads[thread].results.push_back(value);
    all.push_back(std::move(next));
  }
}

std::vector<Machine> Machine::after_late_load(std::size_t thread) const {
  std::vector<Machine> all;
  const Late& late = threads[thread].late;
  if (!late.waits) return all;
  const std::vector<Message>& history = histories[late.location];
  for (std::size_t place = late.from; place < history.size(); ++place) {
    if (history[place].value != late.value) continue;
    Machine next = *this;
    next.threads[thread].late = {};
    next.see(thread, late.location, place, std::memory_order_relaxed);
    all.push_back(std::move(next));
  }
  return all;
}

bool Machine::has_late_loads() const {
  return std::any_of(threads.begin(), threads.end(),
                     [](const Thread& thread) { return thread.late.waits; });
}

// Inserts a message in the middle of a history: later places move by one.
void Machine::insert(std::size_t location, std::size_t place, Message message) {
  std::vector<Message>& history = histories[location];
  if (place != history.size())
    for_each_view([&](View& view) {
      if (view.places[location] >= place) ++view.places[location];
    });
  history.insert(history.begin() + static_cast<std::ptrdiff_t>(place), std::move(message));
}

void Machine::store(std::vector<Machine>& all, std::size_t thread, std::size_t location,
                    const Operation& operation) const {
  const std::size_t size = histories[location].size();
  for (std::size_t place = oldest(thread, location, operation.order) + 1; place <= size; ++place) {
    if (place < size && histories[location][place].follows) continue;
    Machine next = *this;
    Thread& writer = next.threads[thread];
    Message message{operation.value, releases(operation.order) ? writer.now : writer.released,
                    false};
    message.view.places[location] = static_cast<std::uint8_t>(place);
    next.insert(location, place, std::move(message));
    writer.now.places[location] = static_cast<std::uint8_t>(place);
    writer.acquired.join(writer.now);
    if (is_consistent(operation.order))
      next.consistent.places[location] = static_cast<std::uint8_t>(place);
    writer.results.push_back(0);
    all.push_back(std::move(next));
  }
}

// Reads a message, and inserts its own directly behind it. The new message also passes the view of
// the read message on, because it is in the release sequence of that message.
void Machine::exchange(std::vector<Machine>& all, std::size_t thread, std::size_t location,
                       const Operation& operation) const {
  const std::size_t size = histories[location].size();
  for (std::size_t place = oldest(thread, location, operation.order); place < size; ++place) {
    const std::uint64_t before = histories[location][place].value;
    if (operation.kind == Kind::kCompare && before != operation.expected) continue;
    if (place + 1 < size && histories[location][place + 1].follows) continue;
    Machine next = *this;
    next.see(thread, location, place, operation.order);
    Thread& writer = next.threads[thread];
    Message message{written_by(operation, before),
                    releases(operation.order) ? writer.now : writer.released, true};
    message.view.join(histories[location][place].view);
    const auto own = static_cast<std::uint8_t>(place + 1);
    message.view.places[location] = own;
    next.insert(location, own, std::move(message));
    writer.now.places[location] = own;
    writer.acquired.join(writer.now);
    if (is_consistent(operation.order)) next.consistent.places[location] = own;
    writer.results.push_back(before);
    all.push_back(std::move(next));
  }
}

void Machine::fence(std::size_t thread, std::memory_order order) {
  Thread& here = threads[thread];
  if (acquires(order)) here.now.join(here.acquired);
  if (is_consistent(order)) {
    here.now.join_places(consistent);
    consistent.join_places(here.now);
  }
  if (releases(order)) here.released = here.now;
  here.acquired.join(here.now);
}

void Machine::forget() {
  for (std::size_t location = 0; location < histories.size(); ++location) {
    std::vector<Message>& history = histories[location];
    std::size_t first = history.size() - 1;
    for (const Thread& thread : threads)
      if (thread.status != Status::kOver)
        first = std::min<std::size_t>(first, thread.now.places[location]);
    if (first == 0) continue;
    history.erase(history.begin(), history.begin() + static_cast<std::ptrdiff_t>(first));
    history.front().follows = false;  // no message is before it any more
    const auto moves = [first](std::uint8_t& place) {
      place = static_cast<std::uint8_t>(place - std::min<std::size_t>(place, first));
    };
    for_each_view([&](View& view) { moves(view.places[location]); });
    for (Thread& thread : threads)
      if (thread.late.waits && thread.late.location == location) moves(thread.late.from);
  }
}

bool Machine::access_plain(std::size_t thread, std::size_t object, bool writes) {
  PlainAccesses& accesses = plain[object];
  const View& known = threads[thread].now;
  for (std::size_t other = 0; other < threads.size(); ++other) {
    if (other == thread) continue;
    if (accesses.written[other] > known.steps[other]) return false;
    if (writes && accesses.read[other] > known.steps[other]) return false;
  }
  // The access belongs to the next step of this thread.
  const auto step = static_cast<std::uint8_t>(known.steps[thread] + 1);
  (writes ? accesses.written : accesses.read)[thread] = step;
  return true;
}

std::string Machine::bytes() const {
  std::string bytes;
  for (const auto& history : histories) {
    append(bytes, static_cast<std::uint8_t>(history.size()));
    for (const Message& message : history) {
      append(bytes, message.value);
      append(bytes, message.view);
      append(bytes, message.follows);
    }
  }
  for (const PlainAccesses& one : plain) {
    append(bytes, one.read);
    append(bytes, one.written);
    append(bytes, one.value);
  }
  for (const Thread& thread : threads) {
    append(bytes, thread.now);
    append(bytes, thread.acquired);
    append(bytes, thread.released);
    append(bytes, thread.late.location);
    append(bytes, thread.late.from);
    append(bytes, thread.late.waits);
    append(bytes, thread.late.value);
    append(bytes, thread.status);
    append(bytes, thread.sleeps_at);
    append(bytes, static_cast<std::uint16_t>(thread.results.size()));
    for (const std::uint64_t result : thread.results) append(bytes, result);
  }
  append(bytes, consistent);
  return bytes;
}

}  // namespace tensorbus::model
