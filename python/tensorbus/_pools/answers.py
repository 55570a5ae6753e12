"""The messages of a worker to its pool."""

from __future__ import annotations

import pickle
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tensorbus._base.errors import Error


@dataclass
class Ready:
    """The first message of a worker."""


@dataclass
class Done:
    value: Any
    number: int  # of the message that the worker got; its first has number 1


class RemoteTraceback(Exception):
    """The `__cause__` of a worker's exception: the text of its traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Failed:
    """An exception as a message; the other process may be unable to unpickle the exception.

    Args:
        error: the exception.
        number: see `Done`; None for the worker's current message.
        unread: the worker could not unpickle the message, and has not called the function.
    """

    def __init__(
        self, error: BaseException, number: int | None = None, *, unread: bool = False
    ) -> None:
        self.number = number
        self.unread = unread
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.what = "".join(traceback.format_exception_only(type(error), error)).strip()
        self.pickled = b""
        with suppress(BaseException):
            self.pickled = pickle.dumps(error)

    def error(self) -> BaseException:
        """The exception, or an `Error` with its text if it cannot be unpickled."""
        error: object = None
        with suppress(BaseException):
            error = pickle.loads(self.pickled)
        if not isinstance(error, BaseException):
            error = Error(f"a worker raised an exception that cannot be pickled: {self.what}")
        error.__cause__ = RemoteTraceback(self.text)
        return error
