"""Contexts like those of the standard library, with processes, queues and pipes of this package."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context as standard
import multiprocessing.process
import os
import threading
from multiprocessing.connection import wait
from typing import Any

from tensorbus._pickling import torch_sharing
from tensorbus.multiprocessing import _keeper, reductions
from tensorbus.multiprocessing._contexts import by_method, context_of
from tensorbus.multiprocessing._executors import call_by_reference
from tensorbus.multiprocessing.connection import Connection, Pipe
from tensorbus.multiprocessing.pool import Pool
from tensorbus.multiprocessing.queues import JoinableQueue, Queue, SimpleQueue

__all__ = ["DefaultContext", "ForkContext", "ForkServerContext", "Process", "SpawnContext"]


class _Starting(threading.local):
    """The process object that a thread is pickling to start the process."""

    process: Any = None


_starting = _Starting()


class _Process(multiprocessing.process.BaseProcess):
    """The base class of processes. It passes the keeper's settings to the child."""

    _start_method: Any
    _for_child: bytes

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for argument in self._args:  # type: ignore[attr-defined]
            call_by_reference(argument)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """While the process is spawned, a pickle in which tensors go by reference."""
        if _starting.process is self or standard.get_spawning_popen() is None:
            return super().__reduce_ex__(protocol)
        _starting.process = self
        try:
            return reductions.loads, (reductions.dumps(self),)
        finally:
            _starting.process = None

    def start(self) -> None:
        reductions.learn_libraries()
        # A forked child uses this process's memory without leases: keep the memory until it ends.
        method = self._start_method or multiprocessing.get_start_method()
        pinned = torch_sharing.pin() if method == "fork" else {}
        self._for_child = _keeper.settings_for_child()
        with (
            _keeper.offers_to_child() as offers,
            _keeper.moved_for_child(pinned) as shares,
        ):
            try:
                super().start()
            except BaseException:
                _keeper.withdraw(offers)
                raise
        _keep_until_end(self.sentinel, [*pinned.values(), *shares], offers)

    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        _keeper.adopt(self._for_child)
        reductions.learn_libraries()
        code: int = super()._bootstrap(parent_sentinel)  # type: ignore[misc]
        return code


def _keep_until_end(sentinel: int, kept: list[object], offers: list[bytes]) -> None:
    """Keeps objects until a process has ended, whether or not the program joins it."""
    if not (kept or offers):
        return
    own = os.dup(sentinel)  # the process object closes its own descriptor when it is freed

    def wait_for_end() -> None:
        wait([own])
        os.close(own)
        kept.clear()
        _keeper.withdraw(offers)

    threading.Thread(target=wait_for_end, name="tensorbus-pins", daemon=True).start()


class ForkProcess(_Process, standard.ForkProcess):
    """A forked process."""


class SpawnProcess(_Process, standard.SpawnProcess):
    """A process with a fresh interpreter."""


class ForkServerProcess(_Process, standard.ForkServerProcess):
    """A process that the fork server has forked."""


class _Context:
    """The methods of every context that replace methods of the standard library."""

    def Queue(self, maxsize: int = 0) -> Queue:
        """A queue shared between processes."""
        return Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> JoinableQueue:
        """A queue with `task_done` and `join`."""
        return JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self) -> SimpleQueue:
        """A queue that consists of a pipe and two locks."""
        return SimpleQueue(ctx=self.get_context())

    def Pipe(self, duplex: bool = True) -> tuple[Connection, Connection]:
        """Two connected ends of a pipe."""
        reductions.learn_libraries()
        return Pipe(duplex)

    def Pool(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
    ) -> Any:
        """A pool of processes that call functions."""
        return Pool(processes, initializer, initargs, maxtasksperchild, context=self.get_context())

    def Manager(self) -> Any:
        """A started server process for shared objects."""
        from tensorbus.multiprocessing.managers import SyncManager

        reductions.learn_libraries()
        manager = SyncManager(ctx=self.get_context())
        manager.start()
        return manager

    def get_context(self, method: str | None = None) -> Any:
        """The context of a start method; None: this context."""
        return self if method is None else context_of(method)


class ForkContext(_Context, standard.ForkContext):
    """Starts processes by fork."""

    Process = ForkProcess


class SpawnContext(_Context, standard.SpawnContext):
    """Starts processes with fresh interpreters."""

    Process = SpawnProcess


class ForkServerContext(_Context, standard.ForkServerContext):
    """Starts processes by a fork server."""

    Process = ForkServerProcess


by_method.update(fork=ForkContext(), spawn=SpawnContext(), forkserver=ForkServerContext())


class Process(_Process, multiprocessing.process.BaseProcess):
    """A process of the current start method."""

    _start_method: str | None = None

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return default_context.get_context().Process._Popen(process_obj)

    @staticmethod
    def _after_fork() -> None:
        default_context.get_context().Process._after_fork()


class DefaultContext(_Context, standard.BaseContext):
    """Uses and sets the start method of the standard library's `multiprocessing`."""

    Process = Process

    def get_context(self, method: str | None = None) -> Any:
        return context_of(method)

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Sets the start method of the program, once."""
        reductions.learn_libraries()
        multiprocessing.set_start_method(method, force)

    def get_start_method(self, allow_none: bool = False) -> Any:
        """See `multiprocessing.get_start_method`."""
        return multiprocessing.get_start_method(allow_none)

    def get_all_start_methods(self) -> list[str]:
        """See `multiprocessing.get_all_start_methods`."""
        return multiprocessing.get_all_start_methods()


default_context = DefaultContext()
