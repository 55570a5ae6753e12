"""Objects that a `with` block closes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tensorbus._base.errors import Forked

if TYPE_CHECKING:
    from typing_extensions import Self


def cannot_pickle(value: object, instead: str) -> TypeError:
    """The error of pickling an object that cannot leave its process; `instead` names a remedy."""
    return TypeError(f"cannot pickle {type(value).__name__!r} object: {instead}")


class Closing:
    """Base of classes whose `close()` is called at the end of a `with` block.

    An object belongs to the process that made it: it cannot be pickled, unless a subclass defines
    how.
    """

    _in_a_child = "make it in the child"  # the remedy in the error about pickling

    def close(self) -> None:
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        raise cannot_pickle(self, self._in_a_child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Forked):  # a forked child that leaves its parent's block closes nothing
            self.close()
