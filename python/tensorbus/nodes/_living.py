"""How a node runs and ends, for those who use it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from tensorbus.nodes._life import Life
from tensorbus.nodes._run import EndedBySigterm

if TYPE_CHECKING:
    from typing_extensions import Self


class Living:
    """What has a name, runs in an event loop or in threads, and is closed in the end.

    Its attributes are spelt so that those of users' classes cannot be the same.
    """

    def __init__(self, name: str, life: Life) -> None:
        self.__name = name
        self.__life = life

    @property
    def name(self) -> str:
        """The node's name."""
        return self.__name

    @property
    def is_running(self) -> bool:
        """Is it in `run`, or between the first `spin` and the end?"""
        return self.__life.running

    @property
    def stop_event(self) -> threading.Event:
        """Set when it is to end."""
        return self.__life.stopped

    async def run(self) -> None:
        """Calls the callbacks until `stop`. Then they are cancelled, and threads have ended.

        Raises:
            Exception: the first of a callback, with `on_error="raise"`.
            RuntimeError: it runs already.
            Closed: the node is closed.
        """
        self.__life.check_open()
        await self.__life.run()

    def spin(self, timeout: float | None = None) -> bool:
        """Runs a node without an event loop until `stop`; False after `timeout` seconds.

        The threads go on between two calls. SIGTERM raises `SystemExit(143)` here, as Ctrl-C
        raises `KeyboardInterrupt`.

        Raises:
            RuntimeError: something in it needs an event loop.
            Exception: the first of a callback, with `on_error="raise"`.
            Closed: the node is closed.
        """
        self.__life.check_open()
        self.__life.check_all_sync("spin()")
        with EndedBySigterm():
            return self.__life.spin(timeout)

    def stop(self) -> None:
        """Ends `run` and `spin`, for good. From any thread or callback."""
        self.__life.stop()

    async def close(self) -> None:
        """Ends it all: callbacks, threads, publishers, subscribers. A second call does nothing."""
        await self.__life.close()

    def close_sync(self) -> None:
        """The same without an event loop.

        Raises:
            RuntimeError: something in it needs one.
        """
        self.__life.check_all_sync("close_sync()")
        self.__life.close_sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_sync()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.__life.closed else "running" if self.is_running else "open"
        return f"<tensorbus.Node {self.__name!r} {state}>"
