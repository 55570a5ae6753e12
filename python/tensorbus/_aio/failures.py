"""What becomes of an exception in a callback."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal

from tensorbus._base.errors import InvalidArgument
from tensorbus._base.text import text_of

OnError = Literal["log", "stop", "raise"]
CHOICES = ("log", "stop", "raise")

log = logging.getLogger("tensorbus.node")


class Failures:
    """The exceptions of a node's callbacks, in whatever thread. All are logged.

    Args:
        node: its name.
        on_error: "log" and go on; "stop" the node; "raise" the first from `run` or `spin` as well.
        stop: stops the node, from any thread.

    Raises:
        InvalidArgument: another `on_error`.
    """

    def __init__(self, node: str, on_error: str, stop: Callable[[], None]) -> None:
        if on_error not in CHOICES:
            raise InvalidArgument(f"on_error={on_error!r}: expected one of {CHOICES}")
        self._node = node
        self._on_error = on_error
        self._stop = stop
        self._first: BaseException | None = None
        self._lock = threading.Lock()

    def report(self, error: BaseException, where: str, sequence: int | None = None) -> None:
        """Of a callback, or of what keeps one from being called.

        Args:
            error: what was raised.
            where: the topic, timer, service or thread, in words.
            sequence: of the sample that it was called with.
        """
        self._log(logging.ERROR, error, where, sequence)
        if self._on_error == "raise":
            self.end_with(error)
        elif self._on_error == "stop":
            self._stop()

    def warn(self, error: BaseException, where: str) -> None:
        """Of what somebody else has done: it is logged, and nothing more."""
        self._log(logging.WARNING, error, where, None)

    def end_with(self, error: BaseException) -> None:
        """Stops the node and raises this, if it is the first, whatever `on_error` says."""
        with self._lock:
            self._first = self._first or error
        self._stop()

    def raise_first(self) -> None:
        """Once."""
        with self._lock:
            error, self._first = self._first, None
        if error is not None:
            raise error

    def _log(self, level: int, error: BaseException, where: str, sequence: int | None) -> None:
        log.log(
            level,
            "node %r, %s%s: %s: %s",
            self._node,
            where,
            "" if sequence is None else f", sequence {sequence}",
            type(error).__name__,
            text_of(error),
            exc_info=error,
            extra={"node": self._node, "where": where, "sequence": sequence},
        )
