"""Has one call of the system fail in another process: the one that takes the last of something.

    calls = FailingCalls(folder)
    start(env=calls.environment)
    with calls.failing(7) as outcome:  # the eighth call from now on fails
        ...
    outcome.failed  # the name of the call, or nothing if there were not so many

Counted are the calls that take a descriptor, memory, a thread or room on a disk.
"""

from __future__ import annotations

import mmap
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kDup = 0, kDupCloseOnExec = 1030, kAdd = 1 };

static struct { long fails, count; char failed[48]; }* control;
int open(const char*, int, int);
int close(int);

__attribute__((constructor)) static void begin(void) {
  const int file = open(getenv("FAILING_CALLS"), 2, 0);
  control = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
}

static int fails(const char* name) {
  if (control == NULL) return 0;
  const long at = __atomic_load_n(&control->fails, __ATOMIC_SEQ_CST);
  if (at < 0 || __atomic_fetch_add(&control->count, 1, __ATOMIC_SEQ_CST) != at) return 0;
  strcpy(control->failed, name);
  return 1;
}

// libuv ends the process when it cannot watch a descriptor, and the core ends a connection.
static int is_of_python(void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "uvloop") == NULL &&
         strstr(info.dli_fname, "tensorbus") == NULL;
}

#define CALL(type, name, parameters, arguments, counted, error)           \
  type name parameters {                                                  \
    static type(*real) parameters;                                        \
    if (real == NULL) real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
    if ((counted) && fails(#name)) return errno = error, (type)-1;        \
    return real arguments;                                                \
  }
#define CALL1(name, error) CALL(int, name, (long a), (a), 1, error)
#define CALL2(name, error) CALL(int, name, (long a, long b), (a, b), 1, error)
#define CALL3(name, error) CALL(int, name, (long a, long b, long c), (a, b, c), 1, error)
#define CALL4(name, error) \
  CALL(int, name, (long a, long b, long c, long d), (a, b, c, d), 1, error)

CALL3(socket, EMFILE)
CALL4(socketpair, EMFILE)
CALL4(accept4, EMFILE)
CALL3(accept, EMFILE)
CALL1(dup, EMFILE)
CALL2(eventfd, EMFILE)
CALL1(epoll_create1, EMFILE)
CALL2(pipe2, EMFILE)
CALL(int, memfd_create, (const char* a, unsigned b), (a, b), 1, ENFILE)
CALL4(openat, EMFILE)
CALL2(ftruncate, ENOSPC)
CALL2(ftruncate64, ENOSPC)
CALL4(fallocate, ENOSPC)
CALL4(fallocate64, ENOSPC)
CALL(int, open, (const char* a, int b, int c), (a, b, c), 1, EMFILE)
CALL(int, open64, (const char* a, int b, int c), (a, b, c), 1, EMFILE)
CALL(int, fcntl, (int a, int b, long c), (a, b, c), b == kDup || b == kDupCloseOnExec, EMFILE)
CALL(int, epoll_ctl, (long a, int b, long c, long d), (a, b, c, d),
     b == kAdd && is_of_python(__builtin_return_address(0)), ENOSPC)
CALL(void*, mmap, (void* a, size_t b, int c, int d, int e, off_t f), (a, b, c, d, e, f), 1, ENOMEM)

void* opendir(const char* path) {
  static void* (*real)(const char*);
  if (real == NULL) real = (void* (*)(const char*))dlsym(RTLD_NEXT, "opendir");
  if (fails("opendir")) return errno = EMFILE, NULL;
  return real(path);
}

int pthread_create(void* a, const void* b, void* (*c)(void*), void* d) {
  static int (*real)(void*, const void*, void* (*)(void*), void*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  return fails("pthread_create") ? EAGAIN : real(a, b, c, d);
}
"""

_STATE = struct.Struct("<qq48s")  # which call fails, how many there were, the name of that


@dataclass
class Outcome:
    """What has failed."""

    failed: str = ""


class FailingCalls:
    """Of one process, which is started with `environment`."""

    def __init__(self, folder: Path) -> None:
        source, library = folder / "failing_calls.c", folder / "libfailing_calls.so"
        source.write_text(_SOURCE)
        options = ["-shared", "-fPIC", "-w", "-fno-builtin"]
        subprocess.run(["gcc", *options, "-o", library, source, "-ldl"], check=True)
        file = folder / "failing_calls"
        file.write_bytes(bytes(4096))
        with file.open("r+b") as opened:
            self._state = mmap.mmap(opened.fileno(), 4096)
        self._set(-1)
        self.environment = {"LD_PRELOAD": str(library), "FAILING_CALLS": str(file)}

    @contextmanager
    def failing(self, number: int) -> Iterator[Outcome]:
        """The call of this number fails, counted from 0 from now on."""
        outcome = Outcome()
        self._set(number)
        try:
            yield outcome
        finally:
            outcome.failed = _STATE.unpack_from(self._state)[2].rstrip(b"\0").decode()
            self._set(-1)

    def _set(self, number: int) -> None:
        _STATE.pack_into(self._state, 0, -1, 0, b"")
        _STATE.pack_into(self._state, 0, number, 0, b"")
