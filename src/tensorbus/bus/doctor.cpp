#include "tensorbus/bus/doctor.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/huge_pages.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/files/private_directory.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/memory_room.hpp"

namespace tensorbus::bus {
namespace {

constexpr int kOldestMajor = 5;  // pidfd_open(), and poll() on a pidfd
constexpr int kOldestMinor = 4;

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? names.release : "unknown";
}

void require_version(const std::string& release) {
  int major = 0;
  int minor = 0;
  if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) == 2 &&
      (major > kOldestMajor || (major == kOldestMajor && minor >= kOldestMinor)))
    return;
  throw Error(Code::kUnsupported, "Linux " + release + "; 5.4 or newer is needed");
}

void try_pidfd() {
  const platform::Fd own = platform::open_own_pidfd();
  if (!own) platform::throw_system_of_needed("pidfd_open", errno);
  if (!platform::is_pidfd(own.get()))
    throw Error(Code::kUnsupported, "/proc/self/fd does not identify a pidfd: is /proc mounted?");
  pollfd ended{own.get(), POLLIN, 0};
  const int count = ::poll(&ended, 1, 0);
  if (count < 0) throw_system("poll of a pidfd", errno);
  if (count > 0) throw Error(Code::kUnsupported, "a pidfd reports that a living process has ended");
}

// Maps a memfd twice: as its owner, and as a borrower that got its descriptor.
void try_shared_memory() {
  using platform::Mapping;
  const std::size_t bytes = platform::page_bytes();
  const platform::Fd memfd = platform::create_sealed_memfd("tensorbus-doctor", bytes);
  if (!platform::reserve_pages(memfd.get(), 0, bytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for a page");
  const platform::Fd lent = platform::reopen_read_only(memfd.get());
  platform::verify_sealed_memfd(lent.get(), bytes, "memfd");
  const Mapping owners(memfd.get(), bytes, Mapping::Access::kReadWrite);
  const Mapping borrowers(lent.get(), bytes, Mapping::Access::kRead);
  *owners.data() = std::byte{1};
  if (*borrowers.data() != std::byte{1})
    throw Error(Code::kUnsupported, "data written to a memfd is not visible in its other mapping");
}

void try_sockets(const std::string& path) {
  const Domain domain(path);
  const Id guest = Id::random();
  const platform::Fd listener = domain.listen(guest);
  const ProbeResult reached = found_by([&] {
    if (domain.connect(guest).outcome != platform::Connect::kDone)
      throw Error(Code::kSystem, "a socket in " + path + " cannot be connected to");
  });
  domain.remove_files_of(guest);
  if (!reached.can()) throw Error(Code::kSystem, reached.why_not);
}

// Returns false if the directory does not exist and could be made.
bool try_domain(const std::string& path) {
  const auto opened = platform::open_private(path, platform::IfMissing::kLeave);
  if (opened.directory) {
    try_sockets(path);
    return true;
  }
  const std::string above = "/proc/self/fd/" + std::to_string(opened.above.back().get());
  if (::access(above.c_str(), W_OK | X_OK) != 0)
    platform::throw_system("cannot make the domain directory " + path, errno,
                           platform::During::kDirectory);
  return false;
}

std::optional<std::uint64_t> limit_of(platform::ResourceLimit which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

HostFindings probe_host(const std::string& domain) {
  HostFindings found;
  found.kernel = kernel_release();
  found.kernel_version = found_by([&] { require_version(found.kernel); });
  found.pidfd = found_by(try_pidfd);
  found.shared_memory = found_by(try_shared_memory);
  found.huge_pages = found_by([] { platform::try_huge_pages(); });
  found.domain = found_by([&] {
    found.domain_path = domain_path(domain);
    found.domain_exists = try_domain(found.domain_path);
    found.other_domains = domains_beside(found.domain_path);
  });
  const platform::MemoryRoom room = platform::memory_room();
  found.memory_bytes = room.bytes;
  found.memory_limit = room.limit;
  found.open_files = limit_of(RLIMIT_NOFILE);
  found.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  return found;
}

}  // namespace tensorbus::bus
