"""What a `with` block closes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tensorbus._base.errors import Forked

if TYPE_CHECKING:
    from typing_extensions import Self


class Closing:
    """A thing with a `close()`, which the end of a `with` block calls."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Forked):  # a child that leaves its parent's block leaves it to the parent
            self.close()
