"""Handling of exceptions in callbacks."""

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
    """Logs and handles the exceptions of a node's callbacks. Any thread may use it.

    Args:
        node: the name of the node.
        on_error: "log": only log; "stop": stop the node; "raise": stop it, and raise the first
            exception from `run` or `spin`.
        stop: stops the node, from any thread.

    Raises:
        InvalidArgument: an unknown `on_error`.
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
        """Handles the exception of a callback, or an error that prevents a callback's call.

        Args:
            error: the exception.
            where: a description of the topic, timer, service or thread.
            sequence: the sequence number of the callback's sample.
        """
        self._log(logging.ERROR, error, where, sequence)
        if self._on_error == "raise":
            self.end_with(error)
        elif self._on_error == "stop":
            self._stop()

    def warn(self, error: BaseException, where: str) -> None:
        """Logs an error that another process has caused."""
        self._log(logging.WARNING, error, where, None)

    def end_with(self, error: BaseException) -> None:
        """Stops the node for any `on_error`; `raise_first` then raises the first error."""
        with self._lock:
            self._first = self._first or error
        self._stop()

    def raise_first(self) -> None:
        """Raises the first error, if there is one, and clears it."""
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
