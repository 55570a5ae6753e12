#include "pool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "stream.hpp"

// Memory pools. Each is a memfd, and allocations are parts of it. A table at its start says for
// each page which allocation begins there, 0 for none. A process that has imported an allocation
// holds a lock on its bytes; the kernel releases the lock when the process dies.
struct tensorbus::device::cu::MemoryPoolTag {
  standin::MemoryFile file;  // opened anew by each process: a lock is the opened file's
  HandleType handle_types = HandleType::kNone;
  bool imported = false;
  bool destroyed = false;
  std::uint64_t* allocations = nullptr;           // mapped; by page
  std::map<std::size_t, std::size_t> taken = {};  // bytes, by offset: of those that are here
};

namespace standin {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 65536;
constexpr std::size_t kTable = kPages * sizeof(std::uint64_t);
constexpr std::size_t kPoolBytes = kPages * kPage;

struct Name {
  std::uint64_t stamp = 0;   // of the pool
  std::uint64_t number = 0;  // of the allocation, never used again
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::array<std::byte, 32> unused{};
};
static_assert(sizeof(Name) == sizeof(MemPoolPtrExportData));

std::atomic_ref<std::uint64_t> number_at(MemoryPoolTag& pool, std::size_t offset) {
  return std::atomic_ref(pool.allocations[offset / kPage]);
}

OwnedFd open_again(int fd) {
  return OwnedFd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
}

bool map_table(MemoryPoolTag& pool) {
  void* const table =
      ::mmap(nullptr, kTable, PROT_READ | PROT_WRITE, MAP_SHARED, pool.file.fd.get(), 0);
  pool.allocations = static_cast<std::uint64_t*>(table);
  return table != MAP_FAILED;
}

MemoryPool add(World& all, MemoryPoolTag pool) {
  if (!map_table(pool)) return nullptr;
  all.pools.push_back(std::make_shared<MemoryPoolTag>(std::move(pool)));
  return all.pools.back().get();
}

MemoryPool find(World& all, MemoryPool pool) {
  const bool known = std::ranges::any_of(
      all.pools, [&](const auto& one) { return one.get() == pool && !pool->destroyed; });
  return known ? pool : nullptr;
}

void forget_if_done(World& all, MemoryPool pool) {
  if (!pool->destroyed || !pool->taken.empty()) return;
  ::munmap(pool->allocations, kTable);
  std::erase_if(all.pools, [&](const auto& one) { return one.get() == pool; });
}

// Allocations lie behind the table.
std::size_t place_for(const MemoryPoolTag& pool, std::size_t bytes) {
  std::size_t next = kTable;
  for (const auto& [offset, taken] : pool.taken) {
    if (offset - next >= bytes) break;
    next = (offset + taken + kPage - 1) / kPage * kPage;
  }
  return next;
}

bool lock(const MemoryPoolTag& pool, int command, short type, const Range& range,
          struct flock* found) {
  *found = {};
  found->l_type = type;
  found->l_whence = SEEK_SET;
  found->l_start = static_cast<off_t>(range.offset);
  found->l_len = static_cast<off_t>(range.bytes);
  return ::fcntl(pool.file.fd.get(), command, found) == 0;
}

DevicePtr map_range(World& all, MemoryPool pool, std::size_t offset, std::size_t bytes,
                    Context context) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                              pool->file.fd.get(), static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return 0;
  Range range;
  range.kind = pool->imported ? Range::Kind::kPoolImport : Range::Kind::kPooled;
  range.bytes = bytes;
  range.physical = pool->file.physical;
  range.buffer_id = ++all.memory.last_buffer_id;
  range.context = context;
  range.pool = pool;
  range.offset = offset;
  pool->taken.emplace(offset, bytes);
  all.memory.ranges.emplace(address_of(mapped), std::move(range));
  return address_of(mapped);
}

Result allocate(World& all, DevicePtr* address, std::size_t bytes, MemoryPool pool,
                Context context) {
  const std::size_t offset = place_for(*pool, bytes);
  if (bytes > kPoolBytes - offset || !take_room(all.memory, pool->file.physical, bytes))
    return Result::kOutOfMemory;
  *address = map_range(all, pool, offset, bytes, context);
  if (*address == 0) {
    give_room(all.memory, pool->file.physical, bytes);
    return Result::kOutOfMemory;
  }
  number_at(*pool, offset) = all.memory.last_buffer_id;
  return Result::kSuccess;
}

// The number is removed before the locks are checked, and an import checks the number after it has
// locked. So one of the two sees the other.
void require_closed(MemoryPoolTag& pool, const Range& range) {
  number_at(pool, range.offset) = 0;
  struct flock found;
  if (!lock(pool, F_OFD_GETLK, F_WRLCK, range, &found)) fail_test("a pool cannot be looked at");
  if (found.l_type != F_UNLCK) fail_test("memory of a pool is freed that a process has imported");
}

Result import(World& all, DevicePtr* address, MemoryPool pool, const Name& name, Context context) {
  if (name.stamp != pool->file.stamp || name.offset % kPage != 0 || name.bytes == 0 ||
      name.offset < kTable || name.offset > kPoolBytes || name.bytes > kPoolBytes - name.offset)
    return Result::kInvalidValue;
  if (pool->taken.contains(name.offset)) fail_test("memory of a pool is imported twice");
  Range range;
  range.offset = name.offset;
  range.bytes = name.bytes;
  struct flock found;
  if (!lock(*pool, F_OFD_SETLK, F_RDLCK, range, &found)) return Result::kOperatingSystem;
  if (number_at(*pool, name.offset) == name.number)
    *address = map_range(all, pool, name.offset, name.bytes, context);
  else
    *address = 0;
  if (*address != 0) return Result::kSuccess;
  (void)lock(*pool, F_OFD_SETLK, F_UNLCK, range, &found);
  return Result::kInvalidValue;
}

template <typename Body>
Result call_on_pool(const char* symbol, MemoryPool pool, Body&& body) {
  return call_in_context(symbol, [&](World& all, Context context) {
    if (!settings().has("pools")) return Result::kNotSupported;
    if (find(all, pool) == nullptr) return Result::kInvalidValue;
    return body(all, context);
  });
}

Range* pooled_at(World& all, DevicePtr address) {
  const auto found = all.memory.ranges.find(address);
  return found != all.memory.ranges.end() && found->second.pool != nullptr ? &found->second
                                                                           : nullptr;
}

}  // namespace

void free_pooled(World& all, DevicePtr address) {
  const Range range = std::move(*pooled_at(all, address));
  struct flock found;
  if (range.kind == Range::Kind::kPooled) {
    require_closed(*range.pool, range);
    give_room(all.memory, range.physical, range.bytes);
  }
  ::munmap(pointer_to(address), range.bytes);
  if (range.kind == Range::Kind::kPoolImport)
    (void)lock(*range.pool, F_OFD_SETLK, F_UNLCK, range, &found);
  range.pool->taken.erase(range.offset);
  all.memory.ranges.erase(address);
  forget_if_done(all, range.pool);
}

extern "C" Result cuMemPoolCreate(MemoryPool* pool, const MemPoolProps* wanted) {
  return call_for("pools", __func__, [&](World& all) {
    if (wanted->type != AllocationType::kPinned || wanted->location.type != LocationType::kDevice ||
        !is_device(wanted->location.id))
      return Result::kInvalidValue;
    const int physical = settings().physical[static_cast<std::size_t>(wanted->location.id)];
    MemoryPoolTag made;
    made.file = create_memory_file("pool", kPoolBytes, physical);
    if (made.file.physical < 0) return Result::kOperatingSystem;
    made.handle_types = wanted->handle_types;
    *pool = add(all, std::move(made));
    return *pool != nullptr ? Result::kSuccess : Result::kOutOfMemory;
  });
}

// Real drivers crash when a pool is destroyed twice; this is the stand-in's rule: imported
// allocations of a pool are freed before the pool is destroyed.
extern "C" Result cuMemPoolDestroy(MemoryPool pool) {
  return call_for("pools", __func__, [&](World& all) {
    if (find(all, pool) == nullptr) fail_test("a memory pool is destroyed twice");
    if (pool->imported && !pool->taken.empty())
      fail_test("an imported pool is destroyed before what was imported of it");
    pool->destroyed = true;
    forget_if_done(all, pool);
    return Result::kSuccess;
  });
}

extern "C" Result cuMemPoolSetAccess(MemoryPool pool, const AccessDesc* wanted, std::size_t) {
  return call_on_pool(__func__, pool, [&](World&, Context) {
    const bool can = is_device(wanted->location.id) && settings().has("peer");
    return can ? Result::kSuccess : Result::kInvalidDevice;
  });
}

extern "C" Result cuMemAllocFromPoolAsync(DevicePtr* address, std::size_t bytes, MemoryPool pool,
                                          Stream handle) {
  return call_on_pool(__func__, pool, [&](World& all, Context context) {
    if (bytes == 0 || pool->imported) return Result::kInvalidValue;
    return on_stream(all, handle, [&](const StreamRef& stream) {
      const Result refused = allocate(all, address, bytes, pool, context);
      if (refused == Result::kSuccess) enqueue(all, stream, {});
      return refused;
    });
  });
}

extern "C" Result cuMemFreeAsync(DevicePtr address, Stream handle) {
  return call_in_context(__func__, [&](World& all, Context) {
    if (pooled_at(all, address) == nullptr) return Result::kInvalidValue;
    return on_stream(all, handle, [&](const StreamRef& stream) {
      enqueue(all, stream, {.run = [&all, address] {
                const std::lock_guard lock(all.mutex);
                free_pooled(all, address);
              }});
      return Result::kSuccess;
    });
  });
}

extern "C" Result cuMemPoolExportToShareableHandle(void* fd, MemoryPool pool, HandleType type,
                                                   unsigned long long flags) {
  return call_on_pool(__func__, pool, [&](World&, Context) {
    if (!settings().has("pool_ipc")) return Result::kNotSupported;
    if (pool->imported || type != HandleType::kPosixFd || pool->handle_types != type || flags != 0)
      return Result::kInvalidValue;
    const int copy = ::fcntl(pool->file.fd.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return Result::kOperatingSystem;
    *static_cast<int*>(fd) = copy;
    return Result::kSuccess;
  });
}

// For the same pool it returns the same result each time.
extern "C" Result cuMemPoolImportFromShareableHandle(MemoryPool* pool, void* fd, HandleType type,
                                                     unsigned long long flags) {
  return call_for("pool_ipc", __func__, [&](World& all) {
    const int number = static_cast<int>(reinterpret_cast<std::intptr_t>(fd));
    MemoryPoolTag imported;
    imported.file = adopt_memory_file("pool", open_again(number));
    imported.imported = true;
    if (type != HandleType::kPosixFd || flags != 0 || imported.file.physical < 0)
      return Result::kInvalidValue;
    if (ordinal_of(imported.file.physical) < 0) return Result::kInvalidDevice;
    for (const auto& known : all.pools)
      if (known->file.stamp == imported.file.stamp && !known->destroyed) {
        *pool = known.get();
        return known->imported ? Result::kSuccess : Result::kInvalidValue;
      }
    *pool = add(all, std::move(imported));
    return *pool != nullptr ? Result::kSuccess : Result::kOutOfMemory;
  });
}

extern "C" Result cuMemPoolExportPointer(MemPoolPtrExportData* data, DevicePtr address) {
  return call_in_context(__func__, [&](World& all, Context) {
    const Range* const range = pooled_at(all, address);
    if (range == nullptr || range->kind != Range::Kind::kPooled ||
        range->pool->handle_types != HandleType::kPosixFd)
      return Result::kInvalidValue;
    *data =
        std::bit_cast<MemPoolPtrExportData>(Name{.stamp = range->pool->file.stamp,
                                                 .number = number_at(*range->pool, range->offset),
                                                 .offset = range->offset,
                                                 .bytes = range->bytes});
    return Result::kSuccess;
  });
}

extern "C" Result cuMemPoolImportPointer(DevicePtr* address, MemoryPool pool,
                                         MemPoolPtrExportData* data) {
  return call_on_pool(__func__, pool, [&](World& all, Context context) {
    if (!pool->imported) return Result::kInvalidValue;
    return import(all, address, pool, std::bit_cast<Name>(*data), context);
  });
}

extern "C" STANDIN_EXPORT std::size_t standin_imported_pools() {
  const std::lock_guard lock(world().mutex);
  return static_cast<std::size_t>(
      std::ranges::count_if(world().pools, [](const auto& pool) { return pool->imported; }));
}

}  // namespace standin
