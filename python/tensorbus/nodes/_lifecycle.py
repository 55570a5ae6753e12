"""The start and end of a node's work, and the methods by which users run and close a node."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from tensorbus._aio.callbacks import Mode
from tensorbus._aio.failures import Failures
from tensorbus._base.closing import cannot_pickle
from tensorbus._base.errors import Closed
from tensorbus._base.stop_event import StopEvent
from tensorbus.nodes._run import EndedBySigterm
from tensorbus.nodes._threads import Place, Threads

if TYPE_CHECKING:
    from typing_extensions import Self


class Work(Protocol):
    """A subscriber, timer or service of a node."""

    mode: Mode
    label: str

    @property
    def parallel(self) -> int:
        """The number of tasks or threads to run it in."""

    async def work(self, stop: threading.Event) -> None:
        """Runs in the event loop until cancelled. Calls no callback once `stop` is set."""

    def work_sync(self, stop: threading.Event) -> None:
        """Runs in a thread until `close` is called. Calls no callback once `stop` is set."""

    async def finish(self) -> None:
        """Waits a short time for work that its callbacks have started. In the loop."""

    def close(self) -> None:
        """Ends the work. Called from any thread; a second call does nothing."""


class Belonging(Protocol):
    """An object that is closed with its node."""

    def close(self) -> None: ...


class Lifecycle:
    """Starts a node's work, each piece in its own task or thread, when the node runs, and ends it.

    `stop` may be called in any thread. Everything else may only be used in the event loop's thread,
    or, without a loop, in the main thread.

    Args:
        node: the node's name.
        on_error: see `Failures`.
        before: called before the first work starts; may raise.
        afterwards: called once, when the node is closed and all work has ended.
    """

    def __init__(
        self,
        node: str,
        on_error: str,
        before: Callable[[], None],
        afterwards: Callable[[], None],
    ) -> None:
        self.closed: bool = False
        self.stopped: threading.Event = StopEvent()
        self.failures: Failures = Failures(node, on_error, self.stop)
        self.threads: Threads = Threads(node, self._thread_failed)
        self.belongings: list[Belonging] = []  # closed when all work has ended
        self._node = node
        self._work: dict[Work, Place | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._ended: asyncio.Event | None = None
        self._threads_run = False
        self._before = before
        self._afterwards = afterwards
        self._close_at_end = False

    def add(self, work: Work, place: Place | None = None) -> None:
        """Adds work. It starts now if the node is running, else when the node runs."""
        self._work[work] = place
        if work.mode == "async" and self._loop is not None:
            self._start_task(work)
        elif work.mode == "sync" and self._threads_run:
            self._start_thread(work)

    def check_open(self) -> None:
        if self.closed:
            raise Closed(f"node {self._node!r} is closed")

    @property
    def has_work(self) -> bool:
        """True if there is work to run."""
        return bool(self._work) or self.threads.were_started

    @property
    def has_async_work(self) -> bool:
        """True if any work needs an event loop."""
        return any(work.mode == "async" for work in self._work)

    @property
    def in_loop(self) -> bool:
        """True while the node runs in an event loop."""
        return self._loop is not None

    @property
    def running(self) -> bool:
        """True while the node runs, in an event loop or in threads."""
        return (self.in_loop or self._threads_run) and not self.stopped.is_set()

    def check_all_sync(self, call: str) -> None:
        """Raises RuntimeError if any work needs an event loop."""
        names = [work.label for work in self._work if work.mode == "async"]
        if names or self.in_loop:
            raise RuntimeError(
                f"node {self._node!r} has async work ({', '.join(names)}), which {call} cannot "
                "serve: use `await node.run()` and `await node.close()`, or mode='sync'"
            )

    async def run(self) -> None:
        """Runs until `stop`, then cancels tasks, closes the work and joins the threads."""
        if self.in_loop:
            raise RuntimeError(f"node {self._node!r} runs already")
        self._before()
        self._loop = asyncio.get_running_loop()
        self._wake, self._ended = asyncio.Event(), asyncio.Event()
        try:
            self._start_all()
            if not self.stopped.is_set():
                await self._wake.wait()
        finally:
            try:
                await self._end()
            finally:
                self._loop = None
                self._ended.set()
        self.failures.raise_first()

    def spin(self, timeout: float | None) -> bool:
        """Blocks until `stop`, or for `timeout` seconds; False after a timeout.

        An exception, for example KeyboardInterrupt, ends the threads, too.
        """
        self.start_threads()
        try:
            stopped = self.stopped.wait(timeout)
        except BaseException:
            self.stop()
            self._close_work()
            raise
        if stopped:
            self._close_work()
        self.failures.raise_first()
        return stopped

    def start_threads(self) -> None:
        if not self._threads_run and not self.stopped.is_set():
            self._before()
            self._threads_run = True
            for work in list(self._work):
                if work.mode == "sync":
                    self._start_thread(work)

    def stop(self) -> None:
        """Ends `run` and `spin`; they cannot start again. For any thread and signal handler."""
        self.stopped.set()
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with suppress(RuntimeError):  # the loop was closed with tasks left in it
                loop.call_soon_threadsafe(wake.set)

    async def close(self) -> None:
        """Ends all work and closes the node. A second call does nothing.

        In a callback of the node itself it returns earlier, because `run` waits for callbacks.
        """
        self.stop()
        if asyncio.current_task() in self._tasks:
            self._close_at_end = True
            return
        if self.in_loop and self._ended is not None:
            await self._ended.wait()
        await self._join()
        self._finish()

    def close_sync(self) -> None:
        """Ends all work, joins the threads other than those that are in this call, and closes."""
        self.stop()
        self._close_work()
        self.threads.join()
        self._finish()

    def _start_all(self) -> None:
        if self.stopped.is_set():
            return
        self.start_threads()
        for work in list(self._work):
            if work.mode == "async":
                self._start_task(work)

    def _start_task(self, work: Work) -> None:
        assert self._loop is not None
        for _ in range(work.parallel):
            task = self._loop.create_task(
                work.work(self.stopped), name=f"{self._node}: {work.label}"
            )
            self._tasks.add(task)
            task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.end_with(error)  # a bug of Tensorbus: errors of callbacks were reported

    def _start_thread(self, work: Work) -> None:
        for _ in range(work.parallel):
            self.threads.start(work.label, lambda: work.work_sync(self.stopped), self._work[work])

    def _thread_failed(self, error: BaseException, name: str) -> None:
        if isinstance(error, Exception):
            self.failures.report(error, name)
        else:
            self.failures.end_with(error)  # sys.exit: `run` or `spin` raises it

    async def _end(self) -> None:
        self.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._join()
        if self._close_at_end:
            self._finish()

    async def _join(self) -> None:
        await asyncio.gather(*(work.finish() for work in self._work))
        self._close_work()
        if self.threads:
            await asyncio.get_running_loop().run_in_executor(None, self.threads.join)

    def _finish(self) -> None:
        if not self.closed:
            self.closed = True
            self._afterwards()
            for belonging in self.belongings:
                belonging.close()

    def _close_work(self) -> None:
        for work in self._work:
            work.close()


class HasLifecycle:
    """The methods by which users run and close a node.

    Private attributes start with two underscores: users' subclasses cannot collide with them.
    """

    def __init__(self, name: str, lifecycle: Lifecycle) -> None:
        self.__name = name
        self.__lifecycle = lifecycle

    @staticmethod
    def _lifecycle_of(node: HasLifecycle) -> Lifecycle:
        """For packages that build on nodes."""
        return node.__lifecycle

    @property
    def name(self) -> str:
        """The node's name."""
        return self.__name

    @property
    def is_running(self) -> bool:
        """True in `run`, and from the first `spin` until the node stops."""
        return self.__lifecycle.running

    @property
    def stop_event(self) -> threading.Event:
        """Set when the node stops."""
        return self.__lifecycle.stopped

    async def run(self) -> None:
        """Calls the callbacks until `stop`, then cancels them and waits for the threads' end.

        Raises:
            InvalidArgument: a value was given for a parameter that was not declared.
            Exception: the first exception of a callback, with `on_error="raise"`.
            SystemExit: a callback in a thread has called `sys.exit`.
            RuntimeError: the node is already running.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        await self.__lifecycle.run()

    def spin(self, timeout: float | None = None) -> bool:
        """Runs a node without an event loop until `stop`; False after `timeout` seconds.

        The node's threads continue between two calls. SIGTERM raises `SystemExit(143)` in this
        call, as Ctrl-C raises `KeyboardInterrupt`.

        Raises:
            InvalidArgument: a value was given for a parameter that was not declared.
            RuntimeError: the node has work that needs an event loop.
            Exception: the first exception of a callback, with `on_error="raise"`.
            SystemExit: a callback has called `sys.exit`; see above for SIGTERM.
            Closed: the node is closed.
        """
        self.__lifecycle.check_open()
        self.__lifecycle.check_all_sync("spin()")
        with EndedBySigterm():
            return self.__lifecycle.spin(timeout)

    def stop(self) -> None:
        """Ends `run` and `spin`; they cannot start again.

        Any thread, callback or signal handler may call it.
        """
        self.__lifecycle.stop()

    async def close(self) -> None:
        """Ends callbacks, threads, publishers and subscribers. A second call does nothing."""
        await self.__lifecycle.close()

    def close_sync(self) -> None:
        """`close` without an event loop.

        Raises:
            RuntimeError: the node has work that needs an event loop.
        """
        self.__lifecycle.check_all_sync("close_sync()")
        self.__lifecycle.close_sync()

    def __reduce__(self) -> tuple[Any, ...]:
        raise cannot_pickle(self, "make the node in the child")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.__lifecycle.closed else "running" if self.is_running else "open"
        return f"<tensorbus.Node {self.__name!r} {state}>"
