#include "tensorbus/platform/faults/bus_fault.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "tensorbus/platform/faults/chained_handler.hpp"
#include "tensorbus/platform/faults/page_calls.hpp"
#include "tensorbus/platform/faults/signal_message.hpp"
#include "tensorbus/platform/mutex.hpp"

// The code that runs in the signal handler calls only what the handler in write_fault.cpp calls,
// and the functions of page_calls.hpp.

namespace tensorbus::platform {

class FileGuards {
 public:
  // Returns false if no guard covers this address, or if the pages could not be replaced.
  static bool mend(const void* address) noexcept;

  static inline constinit AddressList<FileGuard> list;

 private:
  static bool replace(FileGuard& guard, std::size_t from) noexcept TB_REQUIRES(list);
  static void describe(const FileGuard& guard, SignalMessage& message) noexcept;
  static bool is_reported(std::uint64_t file) noexcept TB_REQUIRES(list);
};

namespace {

constinit ChainedHandler bus_handler(SIGBUS);
constinit bool bus_asked TB_GUARDED_BY(FileGuards::list) = false;
// The files whose damage was reported last, by their identify() numbers.
constinit std::array<std::uint64_t, 64> reported TB_GUARDED_BY(FileGuards::list){};
constinit std::size_t next_reported TB_GUARDED_BY(FileGuards::list) = 0;

void on_bus_error(int, siginfo_t* info, void* context) {
  const int error = errno;
  // Mends only pages that their file cannot supply; broken hardware (BUS_MCEERR_AR) is not hidden.
  const bool mended = info->si_code == BUS_ADRERR && FileGuards::mend(info->si_addr);
  errno = error;
  if (!mended) bus_handler.pass_on(info, context);
}

void install_bus_handler() noexcept TB_REQUIRES(FileGuards::list) {
  if (bus_asked) return;
  bus_asked = true;
  const char* wish = std::getenv("TENSORBUS_BUS_GUARD");
  if (wish == nullptr || std::string_view(wish) != "0") bus_handler.install(on_bus_error);
}

}  // namespace

// Not inlined, so that the message is off the stack before the previous handler is called.
[[gnu::noinline]] bool FileGuards::mend(const void* address) noexcept {
  if (!list.lock_in_handler()) return false;
  FileGuard* const guard = list.find(address);
  if (guard == nullptr) {
    list.unlock();
    return false;
  }
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - guard->link_.memory.data());
  const std::size_t from = offset - offset % page_bytes();
  const bool first = !guard->broken();
  const bool done = replace(*guard, from);
  SignalMessage message;
  const bool reports = first && done && !is_reported(guard->file_);
  if (reports) describe(*guard, message);
  list.unlock();
  if (reports) message.write_to_stderr();
  return done;
}

// Returns true if the damage of this file was reported before. Else records it as reported.
bool FileGuards::is_reported(std::uint64_t file) noexcept {
  if (file == 0) return false;
  if (std::find(reported.begin(), reported.end(), file) != reported.end()) return true;
  reported[next_reported++ % reported.size()] = file;
  return false;
}

bool FileGuards::replace(FileGuard& guard, std::size_t from) noexcept {
  const std::size_t intact = guard.intact_bytes();
  if (from >= intact) return true;  // another thread's handler replaced this page first
  // Replaces the pages up to the part that was replaced before, which may have been written to. The
  // lock keeps the guard's owner from unmapping this range, so no other mapping can be there.
  const std::byte* const begin = guard.link_.memory.data() + from;
  const long protection = guard.writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
  // NORESERVE: the range may be larger than the machine's memory, and little of it will be touched.
  constexpr long kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (!map_pages({begin, intact - from}, protection, kFlags, -1, 0)) return false;
  guard.intact_.store(from, std::memory_order_relaxed);
  return true;
}

void FileGuards::describe(const FileGuard& guard, SignalMessage& message) noexcept {
  message.text("tensorbus: the mapped file '")
      .name(guard.path_)
      .text("' was cut short, or cannot be read or written: from byte ")
      .number(guard.intact_bytes())
      .text(
          " of the mapping on, this process reads zeros now. Its check() and flush() raise the "
          "error. With TENSORBUS_BUS_GUARD=0, SIGBUS ends the process instead.\n");
}

std::uint64_t FileGuard::identify(int fd, bool anew) noexcept {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return 0;
  // Two files with the same number would share one report. An inode number is usually below 2^40.
  const std::uint64_t file = (static_cast<std::uint64_t>(status.st_dev) << 40 ^
                              static_cast<std::uint64_t>(status.st_ino)) |
                             std::uint64_t{1} << 63;
  if (!anew) return file;
  FileGuards::list.lock();
  std::replace(reported.begin(), reported.end(), file, std::uint64_t{0});
  FileGuards::list.unlock();
  return file;
}

bool FileGuard::hold() noexcept TB_NO_THREAD_SAFETY_ANALYSIS {
  return FileGuards::list.lock_in_handler(kPatientAttempts);
}
void FileGuard::let_go() noexcept TB_NO_THREAD_SAFETY_ANALYSIS { FileGuards::list.unlock(); }
void FileGuard::hold_for_fork() noexcept TB_NO_THREAD_SAFETY_ANALYSIS { FileGuards::list.lock(); }

FileGuard::FileGuard(std::span<const std::byte> memory, std::string_view path, bool writable,
                     std::uint64_t file) noexcept
    : link_{memory}, path_(path), writable_(writable), file_(file), intact_(memory.size()) {
  FileGuards::list.lock();
  install_bus_handler();
  FileGuards::list.add(*this);
  FileGuards::list.unlock();
}

FileGuard::~FileGuard() {
  FileGuards::list.lock();
  FileGuards::list.remove(*this);
  FileGuards::list.unlock();
}

}  // namespace tensorbus::platform
