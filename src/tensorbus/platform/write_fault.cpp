#include "tensorbus/platform/write_fault.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

// What runs in the signal handler calls only functions that POSIX.1-2017 (XSH 2.4.3; Linux:
// signal-safety(7)) allows there: poll, raise, sigaction, sigemptyset, write; and it takes the
// lock below only if it gets it within a bounded number of attempts.

namespace tensorbus::platform {
namespace {

constexpr std::string_view kBeforeTopic =
    "tensorbus: a write to a read-only tensor that was received from topic '";
constexpr std::string_view kAfterTopic =
    "'. Received tensors are read-only: write to a copy (tensor.clone(), sample.copy()), or "
    "subscribe with access=\"private\" (your own copy on write) or access=\"shared\" (writes seen "
    "by all). TENSORBUS_FAULT_MESSAGE=0 turns this message off.\n";
constexpr std::string_view kCut = "...";
constexpr std::size_t kTopicBytes = 200;  // of a longer topic, the message shows the beginning

// How many bytes at the start of `text` are one character that a terminal can be given: 0 for
// control characters (also those of C1, U+0080 to U+009F) and for what is not UTF-8 (Unicode 15,
// table 3-7).
std::size_t printable_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = at(1);
  const bool refused = (first == 0xC2 && second < 0xA0) ||   // C1
                       (first == 0xE0 && second < 0xA0) ||   // overlong
                       (first == 0xED && second >= 0xA0) ||  // surrogates
                       (first == 0xF0 && second < 0x90) ||   // overlong
                       (first == 0xF4 && second >= 0x90);    // above U+10FFFF
  return refused ? 0 : bytes;
}

// The message, on the stack of a signal handler.
class Message {
 public:
  explicit Message(std::string_view topic) noexcept {
    append(kBeforeTopic);
    append_topic(topic);
    append(kAfterTopic);
  }

  void write_to_stderr() const noexcept {
    // At once, so that it is not mixed with what other threads write; nobody to tell of a failure.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), used_);
  }

 private:
  void append(std::string_view text) noexcept {
    std::memcpy(text_.data() + used_, text.data(), text.size());
    used_ += text.size();
  }

  void append_topic(std::string_view topic) noexcept {
    const std::size_t end = used_ + kTopicBytes;
    while (!topic.empty()) {
      const std::size_t printable = printable_bytes(topic);
      const std::size_t taken = std::max<std::size_t>(printable, 1);
      if (used_ + taken > end) return append(kCut);
      append(printable == 0 ? "?" : topic.substr(0, printable));
      topic.remove_prefix(taken);
    }
  }

  std::array<char, kBeforeTopic.size() + kTopicBytes + kCut.size() + kAfterTopic.size()> text_;
  std::size_t used_ = 0;
};
static_assert(sizeof(Message) < 768, "an alternate stack may be as small as MINSIGSTKSZ");

// What SIGSEGV did before us. Written once, before our handler is installed, then only read.
struct sigaction previous_action{};

void restore_default() noexcept {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, nullptr);
}

// Not noexcept, nor is what calls it: the previous handler may leave as it likes.
void call_previous(int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;  // by raise() or kill(): no instruction will fault again
  if (previous_action.sa_handler == SIG_IGN && sent) return;
  if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    // The instruction that faulted runs again when we return, and now it ends the process.
    restore_default();
    if (sent) ::raise(signal);
    return;
  }
  if ((previous_action.sa_flags & SA_RESETHAND) != 0) restore_default();
  if ((previous_action.sa_flags & SA_SIGINFO) != 0)
    previous_action.sa_sigaction(signal, info, context);
  else
    previous_action.sa_handler(signal);
}

}  // namespace

// The list of all notes of the process, newest first, and its lock. Under the lock nothing
// allocates, waits or calls out, so it is held for a few nanoseconds; installing the handler, once,
// is the exception.
class ReadOnlyNotes {
 public:
  void add(ReadOnlyNote& note) noexcept {
    lock();
    if (!asked_) install();
    note.older_ = newest_;
    if (newest_ != nullptr) newest_->newer_ = &note;
    newest_ = &note;
    unlock();
  }

  void remove(ReadOnlyNote& note) noexcept {
    lock();
    (note.newer_ == nullptr ? newest_ : note.newer_->older_) = note.older_;
    if (note.older_ != nullptr) note.older_->newer_ = note.newer_;
    unlock();
  }

  void lock() noexcept {
    while (!try_lock()) ::sched_yield();
  }
  // Release: pairs with the acquire in try_lock; the next holder sees the list as we leave it.
  void unlock() noexcept { lock_.clear(std::memory_order_release); }

 private:
  static constexpr int kAttempts = 100;

  bool try_lock() noexcept {
    // Acquire: pairs with the release in unlock.
    return !lock_.test_and_set(std::memory_order_acquire);
  }

  // In the signal handler. The holder may be a thread that waits for a core, so sleep between the
  // attempts; and it may be this very thread if the list itself is damaged, so give up some time.
  bool lock_in_handler() noexcept {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (try_lock()) return true;
      ::poll(nullptr, 0, 1);
    }
    return false;
  }

  const ReadOnlyNote* find(const void* address) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (const ReadOnlyNote* note = newest_; note != nullptr; note = note->older_)
      // Below its beginning the difference is huge: unsigned.
      if (at - reinterpret_cast<std::uintptr_t>(note->memory_.data()) < note->memory_.size())
        return note;
    return nullptr;
  }

  // Not inlined, so that the message has left the stack when the previous handler is called.
  [[gnu::noinline]] void report(const void* address) noexcept {
    if (!lock_in_handler()) return;
    const ReadOnlyNote* note = find(address);
    if (note == nullptr) return unlock();
    const Message message(note->topic_);
    unlock();
    message.write_to_stderr();
  }

  static void on_fault(int signal, siginfo_t* info, void* context);

  void install() noexcept {
    asked_ = true;
    const char* wish = std::getenv("TENSORBUS_FAULT_MESSAGE");
    if (wish != nullptr && std::string_view(wish) == "0") return;
    if (::sigaction(SIGSEGV, nullptr, &previous_action) != 0) return;
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    // The previous handler runs inside ours: it finds the signals blocked as it asked for, which
    // matters if it leaves by longjmp or raises the signal again.
    action.sa_mask = previous_action.sa_mask;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous_action.sa_flags & SA_NODEFER);
    ::sigaction(SIGSEGV, &action, nullptr);
  }

  std::atomic_flag lock_;
  bool asked_ = false;
  ReadOnlyNote* newest_ = nullptr;
};

namespace {

constinit ReadOnlyNotes notes;

// The forking thread holds the lock across fork(), so that the child does not inherit it from a
// thread that does not exist there, nor a list that such a thread was halfway through changing.
void lock_notes() noexcept { notes.lock(); }
void unlock_notes() noexcept { notes.unlock(); }
[[maybe_unused]] const int registered = ::pthread_atfork(lock_notes, unlock_notes, unlock_notes);

}  // namespace

void ReadOnlyNotes::on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // Memory that is mapped and refused the access; SEGV_MAPERR would be memory that is not there.
  if (info->si_code == SEGV_ACCERR) notes.report(info->si_addr);
  errno = error;
  call_previous(signal, info, context);
}

ReadOnlyNote::ReadOnlyNote(std::span<const std::byte> memory, std::string_view topic) noexcept
    : memory_(memory), topic_(topic) {
  notes.add(*this);
}

ReadOnlyNote::~ReadOnlyNote() { notes.remove(*this); }

}  // namespace tensorbus::platform
