// A process for tests to talk to, stop and kill: reads a command per line, answers with a line.
// Publishers' samples are patterns (tensorbus/bus/test_support.hpp) with consecutive seeds.

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <sstream>
#include <string>

#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tests/system/queue_numbers.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace {

using namespace tensorbus;
using namespace tensorbus::testing;

// "topic depth=2 reliable": the first word, and the options after it.
struct Arguments {
  explicit Arguments(std::istream& line) {
    line >> first;
    for (std::string word; line >> word;) {
      const auto equals = word.find('=');
      options[word.substr(0, equals)] =
          equals == std::string::npos ? 1 : std::stoull(word.substr(equals + 1));
    }
  }
  std::uint64_t get(const std::string& name, std::uint64_t otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
  }
  std::string first;
  std::map<std::string, std::uint64_t> options;
};

class PeerProcess {
 public:
  explicit PeerProcess(std::string domain) : domain_(std::move(domain)) { join(); }

  std::string obey(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    const Arguments arguments(words);
    const auto found = commands_.find(command);
    if (found == commands_.end()) return "what is " + command;
    try {
      return found->second(*this, arguments);
    } catch (const Error& error) {
      return std::string("error ") + error.what();
    }
  }

 private:
  static constexpr std::int64_t kRowWords = 64;
  using Command = std::function<std::string(PeerProcess&, const Arguments&)>;

  static std::string name_of(Outcome outcome) {
    constexpr std::array names{"ok", "timed_out", "interrupted", "closed", "hold_limit"};
    return names.at(static_cast<std::size_t>(outcome));
  }

  // A new participant; publishers and subscribers made from now on belong to it.
  std::string join() {
    ParticipantOptions options;
    options.domain = domain_;
    participants_.push_back(bus::make_participant(options));
    return "ok " + participants_.back()->id().hex();
  }
  std::string leave() {
    kept_.clear();
    shares_.clear();
    loans_.clear();
    publishers_.clear();
    subscribers_.clear();
    participants_.clear();
    return "ok";
  }
  std::string publisher(const Arguments& with) {
    PublisherOptions options;
    options.depth = static_cast<std::uint32_t>(with.get("depth", options.depth));
    options.history = static_cast<std::uint32_t>(with.get("history", 0));
    options.reliable = with.get("reliable", 0) != 0;
    options.shared = with.get("shared", 0) != 0;
    options.timeout = std::chrono::milliseconds(with.get("timeout_ms", 3'600'000));
    seed_ = with.get("seed", 0);
    publishers_.emplace_back(with.first, options, participants_.back());
    return "ok";
  }
  std::string subscriber(const Arguments& with) {
    SubscriberOptions options;
    options.depth = static_cast<std::uint32_t>(with.get("depth", 0));
    options.max_held = static_cast<std::uint32_t>(with.get("held", options.max_held));
    if (with.get("private", 0) != 0) options.access = Access::kPrivate;
    if (with.get("shared", 0) != 0) options.access = Access::kShared;
    subscribers_.emplace_back(with.first, options, participants_.back());
    return "ok";
  }
  // "publish 3 words=100 copy": on every publisher, the same seeds. "hold" keeps the loans.
  std::string publish(const Arguments& with) {
    const std::size_t words = with.get("words", 64);
    for (std::uint64_t i = 0; i < std::stoull(with.first); ++i, ++seed_) {
      for (bus::Publisher& publisher : publishers_) {
        Published published;
        if (with.get("copy", 0) != 0) {
          std::vector<std::uint64_t> own(words);
          write_pattern(own, seed_);
          published =
              publisher.publish(TensorView::of(own.data(), {static_cast<std::int64_t>(words)}));
        } else if (with.get("hold", 0) != 0) {
          loans_.push_back(pattern_loan(publisher, seed_, words));
          published = publisher.publish(loans_.back().view());
        } else {
          published = publish_pattern(publisher, seed_, words);
        }
        if (published.outcome != Outcome::kDone) return name_of(published.outcome);
      }
    }
    return "ok";
  }
  // "publish_rows 6": the patterns of so many seeds at once, each a message.
  std::string publish_rows(const Arguments& with) {
    const auto count = std::stoull(with.first);
    std::vector<std::uint64_t> rows(count * kRowWords);
    for (std::size_t i = 0; i < count; ++i)
      write_pattern(std::span(rows).subspan(i * kRowWords, kRowWords), seed_ + i);
    seed_ += count;
    const TensorView view =
        TensorView::of(rows.data(), {static_cast<std::int64_t>(count), kRowWords});
    for (bus::Publisher& publisher : publishers_)
      if (const auto done = publisher.publish_many(view); done.count != count)
        return name_of(done.outcome);
    return "ok";
  }
  // "publish_kept": what was received or attached last goes on, by reference, on every publisher.
  std::string publish_kept() {
    for (bus::Publisher& publisher : publishers_)
      if (publisher.publish(kept_view()).outcome != Outcome::kDone) return "not published";
    return "ok";
  }
  TensorView kept_view() const {
    const bus::Tensor& tensor = kept_.back().tensor();
    return {tensor.data(), tensor.layout()};
  }
  // "share 7 uses=2 shared": the pattern of this seed. Says the handle.
  std::string share(const Arguments& with) {
    std::vector<std::uint64_t> words(with.get("words", 64));
    write_pattern(words, std::stoull(with.first));
    const auto size = static_cast<std::int64_t>(words.size());
    return keep_shared({.tensors = {TensorView::of(words.data(), {size})}},
                       {.uses = static_cast<std::uint32_t>(with.get("uses", 0)),
                        .shared = with.get("shared", 0) != 0});
  }
  std::string share_kept() { return keep_shared({.tensors = {kept_view()}}, {}); }
  std::string keep_shared(const Message& message, const ShareOptions& options) {
    shares_.push_back(tensorbus::bus::share(message, options, participants_.back()));
    return "ok " + shares_.back().handle().text();
  }
  // "put <address> count=5": the numbers from 0 on, one by one; "tensor" adds a tensor of each.
  std::string put(const Arguments& with) {
    bus::Queue queue = bus::Queue::open(with.first, kLong, participants_.back());
    for (std::uint64_t number = 0; number < with.get("count", 1); ++number)
      if (put_number(queue, number, with.get("tensor", 0) != 0) != Outcome::kDone) return "not put";
    return "ok";
  }
  // "get <address> count=5": says each number when it has it.
  std::string get(const Arguments& with) {
    bus::Queue queue = bus::Queue::open(with.first, kLong, participants_.back());
    bus::Sample sample;
    for (std::uint64_t i = 0; i < with.get("count", 1); ++i) {
      if (queue.get(sample, kLong) != Outcome::kDone) return "not got";
      const auto number = number_of(sample);
      if (!number) return "torn";
      std::cout << *number << std::endl;
    }
    return "ok";
  }
  // Attaches by this handle, with "own" by that of the last share, and keeps it.
  std::string attach(const Arguments& with) {
    const bus::Handle handle =
        with.first == "own" ? shares_.back().handle() : bus::Handle::parse(with.first);
    kept_.push_back(tensorbus::bus::attach(handle, {.timeout = kLong}, participants_.back()));
    const auto seed = seed_of(kept_.back());
    return seed ? "ok " + std::to_string(*seed) : "ok torn";
  }

  // Takes so many samples from every subscriber; "keep" holds them, "scribble" writes to them.
  std::string receive(const Arguments& with) {
    std::string seeds = "ok";
    for (bus::Subscriber& subscriber : subscribers_) {
      for (std::uint64_t i = 0; i < std::stoull(with.first); ++i) {
        auto sample = subscriber.receive(kLong);
        if (!sample) return "nothing came after" + seeds.substr(2);
        const auto seed = seed_of(*sample);
        seeds += seed ? " " + std::to_string(*seed) : " torn";
        if (with.get("scribble", 0) != 0)
          write_pattern(sample->tensor().as_mutable<std::uint64_t>(), 123456);
        if (with.get("keep", 0) != 0) kept_.push_back(std::move(*sample));
      }
    }
    return seeds;
  }
  // "receive_into 4": so many, into an array, from every subscriber.
  std::string receive_into(const Arguments& with) {
    std::string seeds = "ok";
    const std::size_t all = std::stoull(with.first);
    for (bus::Subscriber& subscriber : subscribers_) {
      std::vector<std::uint64_t> rows(all * kRowWords);
      std::size_t count = 0;
      for (std::size_t taken = 0; taken < all; taken += count) {
        const auto left = static_cast<std::int64_t>(all - taken);
        if (subscriber.receive_into(&rows[taken * kRowWords],
                                    Layout::contiguous(DType::kUInt64, {left, kRowWords}), count,
                                    kLong) != Outcome::kDone)
          return "nothing came after" + seeds.substr(2);
      }
      for (std::size_t i = 0; i < all; ++i) {
        const auto seed = seed_of(std::span(rows).subspan(i * kRowWords, kRowWords));
        seeds += seed ? " " + std::to_string(*seed) : " torn";
      }
    }
    return seeds;
  }
  // At once, as many as there are.
  std::string receive_many() {
    std::vector<bus::Sample> samples(64);
    std::size_t count = 0;
    if (subscribers_.front().receive_many(samples, count, kLong) != Outcome::kDone)
      return "nothing came";
    return "ok " + std::to_string(count);
  }
  // As an event loop does it: takes samples from every subscriber until it finds nothing more, and
  // says how that ended and what the descriptor says then.
  std::string look() {
    std::string seen = "ok";
    for (bus::Subscriber& subscriber : subscribers_) {
      pollfd descriptor{subscriber.event_descriptor(), POLLIN, 0};
      bus::Sample sample;
      Outcome outcome = Outcome::kDone;
      while ((outcome = subscriber.try_receive(sample)) == Outcome::kDone) {
        const auto seed = seed_of(sample);
        seen += seed ? " " + std::to_string(*seed) : " torn";
        sample = bus::Sample();
      }
      seen += " " + name_of(outcome);
      seen += ::poll(&descriptor, 1, 0) == 1 ? " readable" : " silent";
    }
    return seen;
  }
  // What ready() of every subscriber says, and then its descriptor.
  std::string ready() {
    std::string seen = "ok";
    for (bus::Subscriber& subscriber : subscribers_) {
      pollfd descriptor{subscriber.event_descriptor(), POLLIN, 0};
      seen += subscriber.ready() ? " yes" : " no";
      seen += ::poll(&descriptor, 1, 0) == 1 ? " readable" : " silent";
    }
    return seen;
  }
  // Writes the pattern of this seed into all kept samples.
  std::string write(const Arguments& with) {
    for (const bus::Sample& sample : kept_)
      write_pattern(sample.tensor().as_mutable<std::uint64_t>(), std::stoull(with.first));
    return "ok";
  }
  // The same without asking: at kRead, a crash. "protect" asks the kernel first.
  std::string force(const Arguments& with) {
    for (const bus::Sample& sample : kept_) {
      const auto words = sample.tensor().as<std::uint64_t>();
      auto* first = const_cast<std::uint64_t*>(words.data());
      if (with.get("protect", 0) != 0) {
        const auto address = reinterpret_cast<std::uintptr_t>(first) & ~std::uintptr_t{4095};
        void* page = reinterpret_cast<void*>(address);
        if (::mprotect(page, 4096, PROT_READ | PROT_WRITE) < 0)
          return std::string("refused ") + (errno == EACCES ? "EACCES" : "otherwise");
      }
      write_pattern({first, words.size()}, std::stoull(with.first));
    }
    return "ok";
  }
  std::string check_loans() {
    std::string seeds = "ok";
    for (const bus::Loan& loan : loans_) {
      const auto seed = seed_of(loan.as<std::uint64_t>());
      seeds += seed ? " " + std::to_string(*seed) : " torn";
    }
    return seeds;
  }
  std::string await_refusal() {
    for (bus::Subscriber& subscriber : subscribers_)
      if (!eventually([&] { return subscriber.stats().refused != 0; })) return "nobody refused";
    return "ok " + subscribers_.back().stats().last_refusal;
  }
  std::string check_kept() {
    std::string seeds = "ok";
    for (const bus::Sample& sample : kept_) {
      const auto seed = seed_of(sample);
      seeds += seed ? " " + std::to_string(*seed) : " torn";
    }
    return seeds;
  }
  std::string await_subscribers(const Arguments& with) {
    for (bus::Publisher& publisher : publishers_) {
      const auto count = static_cast<std::uint32_t>(std::stoul(with.first));
      const Outcome outcome = publisher.wait_for_subscribers(count, kLong);
      if (outcome != Outcome::kDone) return name_of(outcome);
    }
    return "ok";
  }
  std::string await_publishers(const Arguments& with) {
    for (bus::Subscriber& subscriber : subscribers_) {
      const auto count = static_cast<std::uint32_t>(std::stoul(with.first));
      const Outcome outcome = subscriber.wait_for_publishers(count, kLong);
      if (outcome != Outcome::kDone) return name_of(outcome);
    }
    return "ok";
  }
  // A child that lives on, with everything it inherited.
  static std::string fork_child() {
    const pid_t child = ::fork();
    if (child != 0) return "ok " + std::to_string(child);
    while (true) ::pause();
  }
  // A child that says what is kept, where we would, when it gets SIGUSR1.
  std::string fork_reader() {
    sigset_t told;
    sigemptyset(&told);
    sigaddset(&told, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &told, nullptr);
    const pid_t child = ::fork();
    if (child != 0) return "ok " + std::to_string(child);
    int signal = 0;
    sigwait(&told, &signal);
    std::cout << check_kept() << std::endl;
    ::_exit(0);
  }
  std::string used() {
    for (bus::Publisher& publisher : publishers_) (void)publisher.stats();
    std::size_t bytes = 0;
    for (const bus::ParticipantRef& participant : participants_)
      bytes += participant->memory_use().used_bytes;
    return "ok " + std::to_string(bytes);
  }

  // "limit descriptors extra=2", "limit address_space extra=1000000": from now on so many more than
  // there are; "off" lifts it.
  static std::string limit(const Arguments& with) {
    const bool descriptors = with.first == "descriptors";
    const auto which = descriptors ? RLIMIT_NOFILE : RLIMIT_AS;
    rlimit limit{};
    ::getrlimit(which, &limit);
    limit.rlim_cur = limit.rlim_max;
    const std::size_t used = descriptors ? first_free_descriptor() : mapped_bytes();
    if (with.get("off", 0) == 0) limit.rlim_cur = used + with.get("extra", 0);
    return ::setrlimit(which, &limit) == 0 ? "ok" : "cannot set the limit";
  }
  // Of the last publisher.
  std::string refusals() {
    const SubscriberStats stats = subscribers_.back().stats();
    return "ok " + std::to_string(stats.publishers) + " " + stats.last_refusal;
  }

  static const std::map<std::string, Command> commands_;

  const std::string domain_;
  std::deque<bus::ParticipantRef> participants_;
  std::deque<bus::Publisher> publishers_;
  std::deque<bus::Subscriber> subscribers_;
  std::vector<bus::Sample> kept_;
  std::vector<bus::Shared> shares_;
  std::vector<bus::Loan> loans_;
  std::uint64_t seed_ = 0;
};

const std::map<std::string, PeerProcess::Command> PeerProcess::commands_ = {
    {"join", [](PeerProcess& p, const Arguments&) { return p.join(); }},
    {"leave", [](PeerProcess& p, const Arguments&) { return p.leave(); }},
    {"publisher", &PeerProcess::publisher},
    {"subscriber", &PeerProcess::subscriber},
    {"publish", &PeerProcess::publish},
    {"publish_rows", &PeerProcess::publish_rows},
    {"publish_kept", [](PeerProcess& p, const Arguments&) { return p.publish_kept(); }},
    {"share", &PeerProcess::share},
    {"share_kept", [](PeerProcess& p, const Arguments&) { return p.share_kept(); }},
    {"put", &PeerProcess::put},
    {"get", &PeerProcess::get},
    {"close_shares", [](PeerProcess& p, const Arguments&) { return p.shares_.clear(), "ok"; }},
    {"attach", &PeerProcess::attach},
    {"receive", &PeerProcess::receive},
    {"receive_into", &PeerProcess::receive_into},
    {"receive_many", [](PeerProcess& p, const Arguments&) { return p.receive_many(); }},
    {"look", [](PeerProcess& p, const Arguments&) { return p.look(); }},
    {"ready", [](PeerProcess& p, const Arguments&) { return p.ready(); }},
    {"write", &PeerProcess::write},
    {"force", &PeerProcess::force},
    {"check_loans", [](PeerProcess& p, const Arguments&) { return p.check_loans(); }},
    {"await_refusal", [](PeerProcess& p, const Arguments&) { return p.await_refusal(); }},
    {"check_kept", [](PeerProcess& p, const Arguments&) { return p.check_kept(); }},
    {"let_go", [](PeerProcess& p, const Arguments&) { return p.kept_.clear(), "ok"; }},
    {"await_subscribers", &PeerProcess::await_subscribers},
    {"await_publishers", &PeerProcess::await_publishers},
    {"close_publishers",
     [](PeerProcess& p, const Arguments&) { return p.publishers_.clear(), "ok"; }},
    {"close_subscribers",
     [](PeerProcess& p, const Arguments&) { return p.subscribers_.clear(), "ok"; }},
    {"fork", [](PeerProcess&, const Arguments&) { return fork_child(); }},
    {"fork_reader", [](PeerProcess& p, const Arguments&) { return p.fork_reader(); }},
    {"used", [](PeerProcess& p, const Arguments&) { return p.used(); }},
    {"fds",
     [](PeerProcess&, const Arguments&) { return "ok " + std::to_string(open_descriptors()); }},
    {"limit", [](PeerProcess&, const Arguments& with) { return limit(with); }},
    {"refusals", [](PeerProcess& p, const Arguments&) { return p.refusals(); }},
    {"abandon", [](PeerProcess&, const Arguments&) -> std::string { ::_exit(0); }},
};

}  // namespace

int main(int, char** arguments) {
  try {
    PeerProcess process(arguments[1]);
    for (std::string line; std::getline(std::cin, line);)
      std::cout << process.obey(line) << std::endl;
  } catch (const tensorbus::Error& error) {
    std::cout << "error " << error.what() << std::endl;
    return 1;
  }
}
