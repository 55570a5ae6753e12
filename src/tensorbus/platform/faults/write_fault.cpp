#include "tensorbus/platform/faults/write_fault.hpp"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "tensorbus/platform/faults/chained_handler.hpp"
#include "tensorbus/platform/faults/signal_message.hpp"
#include "tensorbus/platform/faults/write_handler.hpp"
#include "tensorbus/platform/mutex.hpp"

// The code that runs in the signal handler calls only functions that POSIX.1-2017 (XSH 2.4.3;
// Linux: signal-safety(7)) allows there: poll, raise, sigaction, sigemptyset, write. The number of
// attempts to take the lock of the list is bounded.

namespace tensorbus::platform {
namespace {

constinit AddressList<ReadOnlyNote> notes;
constinit ChainedHandler write_handler(SIGSEGV);
// Release once installed; pairs with the acquire in install_write_handler(), which then returns.
constinit std::atomic<bool> installed{false};
// Relaxed: written before each installation of the handler; it orders nothing.
constinit std::atomic<bool> tells{true};

void lock_notes() noexcept TB_ACQUIRE(notes) { notes.lock(); }
void unlock_notes() noexcept TB_RELEASE(notes) { notes.unlock(); }
[[maybe_unused]] const int kNotesRegistered =
    ::pthread_atfork(lock_notes, unlock_notes, unlock_notes);

void describe_received(std::string_view topic, SignalMessage& message) noexcept {
  message.text("tensorbus: a write to a read-only tensor that was received");
  if (!topic.empty()) message.text(" from topic '").name(topic).text("'");
  message.text(
      " with access=\"read\" (or pin=True). Write to a copy (tensor.clone(), sample.copy()), or "
      "receive it with access=\"copy-on-write\", the default (writes are private to this process), "
      "or access=\"shared\" (all processes see writes). ");
}

void describe(const ReadOnlyNote& note, SignalMessage& message) noexcept {
  if (note.from() == ReadOnlyNote::From::kFile)
    message.text("tensorbus: a write to a read-only tensor that was mapped from file '")
        .name(note.name())
        .text(
            "' with mode=\"r\". Write to a copy (tensor.clone()), or map the file with mode=\"r+\" "
            "(writes reach the file) or mode=\"c\" (writes are private to this process). ");
  else
    describe_received(note.name(), message);
  message.text(kTurnedOff);
}

// Not inlined, so that the message is off the stack before the previous handler is called.
[[gnu::noinline]] void report(const void* address) noexcept {
  if (!notes.lock_in_handler()) return;
  const ReadOnlyNote* note = notes.find(address);
  if (note == nullptr) return notes.unlock();
  SignalMessage message;
  describe(*note, message);
  notes.unlock();
  message.write_to_stderr();
}

void on_fault(int, siginfo_t* info, void* context) {
  const int error = errno;
  // SEGV_ACCERR: the memory is mapped, but its protection forbids the access.
  const bool refused = info->si_code == SEGV_ACCERR;
  const bool speaks = tells.load(std::memory_order_relaxed);
  const bool mended = refused && mend_write(info->si_addr, speaks);
  if (refused && !mended && speaks) report(info->si_addr);
  errno = error;
  if (!mended) write_handler.pass_on(info, context);
}

bool wants_message() noexcept {
  const char* wish = std::getenv("TENSORBUS_FAULT_MESSAGE");
  return wish == nullptr || std::string_view(wish) != "0";
}

}  // namespace

void install_write_handler() noexcept {
  if (installed.load(std::memory_order_acquire)) return;
  notes.lock();
  tells.store(wants_message(), std::memory_order_relaxed);
  write_handler.install(on_fault);
  installed.store(true, std::memory_order_release);
  notes.unlock();
}

void look_for_write_handler() noexcept { installed.store(false, std::memory_order_relaxed); }

ReadOnlyNote::ReadOnlyNote(std::span<const std::byte> memory, std::string_view name,
                           From from) noexcept
    : link_{memory}, name_(name), from_(from) {
  if (wants_message()) install_write_handler();
  notes.lock();
  notes.add(*this);
  notes.unlock();
}

ReadOnlyNote::~ReadOnlyNote() {
  notes.lock();
  notes.remove(*this);
  notes.unlock();
}

}  // namespace tensorbus::platform
