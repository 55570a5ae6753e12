"""The interface of `torch.multiprocessing`, with tensors and arrays sent by reference.

import tensorbus.multiprocessing as mp      # instead of torch.multiprocessing

def work(queue):
    queue.get().mul_(2)                     # visible in the other process

if __name__ == "__main__":
    queue, weights = mp.Queue(), torch.ones(3)
    worker = mp.Process(target=work, args=(queue,))
    worker.start()
    queue.put(weights)                      # moves the tensor into shared memory
    worker.join()

The differences from PyTorch are in docs/multiprocessing.md.
"""

from __future__ import annotations

import ctypes
import multiprocessing

from tensorbus.multiprocessing import connection, context, pool, queue, queues, reductions
from tensorbus.multiprocessing._keeper import get_ttl, set_ttl
from tensorbus.multiprocessing.context import Process as Process
from tensorbus.multiprocessing.context import default_context
from tensorbus.multiprocessing.reductions import is_shared
from tensorbus.multiprocessing.spawn import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_default = default_context
Array = _default.Array
AuthenticationError = _default.AuthenticationError
Barrier = _default.Barrier
BoundedSemaphore = _default.BoundedSemaphore
BufferTooShort = _default.BufferTooShort
Condition = _default.Condition
Event = _default.Event
JoinableQueue = _default.JoinableQueue
Lock = _default.Lock
Manager = _default.Manager
Pipe = _default.Pipe
Pool = _default.Pool
ProcessError = _default.ProcessError
Queue = _default.Queue
RLock = _default.RLock
RawArray = _default.RawArray
RawValue = _default.RawValue
Semaphore = _default.Semaphore
SimpleQueue = _default.SimpleQueue
TimeoutError = _default.TimeoutError
Value = _default.Value
active_children = _default.active_children
allow_connection_pickling = _default.allow_connection_pickling
cpu_count = _default.cpu_count
current_process = _default.current_process
freeze_support = _default.freeze_support
get_all_start_methods = _default.get_all_start_methods
get_context = _default.get_context
get_logger = _default.get_logger
get_start_method = _default.get_start_method
log_to_stderr = _default.log_to_stderr
parent_process = _default.parent_process
reducer = _default.reducer
set_executable = _default.set_executable
set_forkserver_preload = _default.set_forkserver_preload
set_start_method = _default.set_start_method

get_ttl.__module__ = set_ttl.__module__ = __name__

_PR_SET_NAME = 15
_PR_GET_NAME = 16
_NAME_BYTES = 16  # Linux's TASK_COMM_LEN: 15 bytes and a zero

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's names of sharing strategies. In this package they have no effect."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The last argument of `set_sharing_strategy`."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Has no effect: in this package no tensor needs a descriptor or a file.

    Raises:
        AssertionError: the strategy is unknown.
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"new_strategy={new_strategy!r}: expected one of {sorted(_STRATEGIES)}"
        )
    reductions.learn_libraries()
    _strategy = new_strategy


def _set_thread_name(name: str) -> None:
    """Names the calling thread for `ps` and `top`; the system keeps the first 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0)


def _get_thread_name() -> str:
    """The name of the calling thread."""
    name = ctypes.create_string_buffer(_NAME_BYTES)
    ctypes.CDLL(None).prctl(_PR_GET_NAME, name, 0, 0, 0)
    return name.value.decode(errors="replace")


__all__ = [
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "connection",
    "context",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "get_ttl",
    "is_shared",
    "pool",
    "queue",
    "queues",
    "reductions",
    "set_sharing_strategy",
    "set_ttl",
    "spawn",
    "start_processes",
]
__all__ += multiprocessing.__all__  # defined above, from the default context
