#include "tensorbus/platform/faults/write_fault.hpp"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "tensorbus/platform/faults/chained_handler.hpp"
#include "tensorbus/platform/faults/signal_message.hpp"
#include "tensorbus/platform/mutex.hpp"

// The code that runs in the signal handler calls only functions that POSIX.1-2017 (XSH 2.4.3;
// Linux: signal-safety(7)) allows there: poll, raise, sigaction, sigemptyset, write. It tries to
// take the lock of the list a bounded number of times.

namespace tensorbus::platform {
namespace {

constexpr std::string_view kTurnedOff = "TENSORBUS_FAULT_MESSAGE=0 turns this message off.\n";

constinit AddressList<ReadOnlyNote> notes;
constinit ChainedHandler write_handler(SIGSEGV);
constinit bool write_asked TB_GUARDED_BY(notes) = false;

void lock_notes() noexcept TB_ACQUIRE(notes) { notes.lock(); }
void unlock_notes() noexcept TB_RELEASE(notes) { notes.unlock(); }
[[maybe_unused]] const int kNotesRegistered =
    ::pthread_atfork(lock_notes, unlock_notes, unlock_notes);

void describe(const ReadOnlyNote& note, SignalMessage& message) noexcept {
  if (note.from() == ReadOnlyNote::From::kFile)
    message.text("tensorbus: a write to a read-only tensor that was mapped from file '")
        .name(note.name())
        .text(
            "' with mode=\"r\". Write to a copy (tensor.clone()), or map the file with mode=\"r+\" "
            "(writes reach the file) or mode=\"c\" (your own copy on write). ");
  else
    message.text("tensorbus: a write to a read-only tensor that was received from topic '")
        .name(note.name())
        .text(
            "'. Received tensors are read-only: write to a copy (tensor.clone(), sample.copy()), "
            "or subscribe with access=\"private\" (your own copy on write) or access=\"shared\" "
            "(writes seen by all). ");
  message.text(kTurnedOff);
}

// Not inlined: the message must have left the stack when the previous handler is called.
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
  // SEGV_ACCERR: the memory is mapped and refused the access. SEGV_MAPERR: nothing is mapped there.
  if (info->si_code == SEGV_ACCERR) report(info->si_addr);
  errno = error;
  write_handler.pass_on(info, context);
}

void install_write_handler() noexcept TB_REQUIRES(notes) {
  if (write_asked) return;
  write_asked = true;
  const char* wish = std::getenv("TENSORBUS_FAULT_MESSAGE");
  if (wish == nullptr || std::string_view(wish) != "0") write_handler.install(on_fault);
}

}  // namespace

ReadOnlyNote::ReadOnlyNote(std::span<const std::byte> memory, std::string_view name,
                           From from) noexcept
    : link_{memory}, name_(name), from_(from) {
  notes.lock();
  install_write_handler();
  notes.add(*this);
  notes.unlock();
}

ReadOnlyNote::~ReadOnlyNote() {
  notes.lock();
  notes.remove(*this);
  notes.unlock();
}

}  // namespace tensorbus::platform
