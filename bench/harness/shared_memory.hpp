#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace bench {

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

// A memfd, mapped; a process that is forked later shares it.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    const int fd = ::memfd_create("tensorbus-bench", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) < 0) die("memfd");
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data_ == MAP_FAILED) die("mmap");
    ::close(fd);
  }
  ~SharedMemory() { ::munmap(data_, bytes_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

// One object in shared memory. It is never destroyed: the memory goes with the processes.
template <typename T>
class Shared {
 public:
  Shared() : memory_(sizeof(T)), object_(::new (memory_.data()) T) {}
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }

 private:
  SharedMemory memory_;
  T* object_;
};

}  // namespace bench
