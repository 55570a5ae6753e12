"""What a `with` block closes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import Forked

if TYPE_CHECKING:
    from typing_extensions import Self


def cannot_pickle(value: object, instead: str) -> TypeError:
    """The error for what is of one process: as Python's own, with what to do instead."""
    return TypeError(f"cannot pickle {type(value).__name__!r} object: {instead}")


class Closing:
    """A thing with a `close()`, which the end of a `with` block calls.

    It is of the process that made it, so it does not pickle unless a subclass says how.
    """

    _in_a_child = "make it in the child"  # what the error about pickling says to do

    def close(self) -> None:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        raise cannot_pickle(self, self._in_a_child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Forked):  # a child that leaves its parent's block leaves it to the parent
            self.close()
