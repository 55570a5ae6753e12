"""Items that a process has taken from a queue, but has not returned to its program yet."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tensorbus import _core
from tensorbus._pickling import pickler
from tensorbus._tensors.library import Library

# A plain value in a tuple, or the sample of any other item.
Item = tuple[Any] | _core.Sample


class Unread:
    """Items of one process, the oldest first. The next gets of the process return them."""

    def __init__(self, library: Library | None) -> None:
        """`library` is the library of the items' tensors."""
        self._library = library
        self.items: deque[Item] = deque()
        self._process = os.getpid()

    def keep(self, values: Iterable[Any], items: Iterable[Item]) -> None:
        """Puts values, and then items, in front of all others."""
        self.items.extendleft(reversed([*((value,) for value in values), *items]))

    def take(self, max_count: int) -> deque[Item]:
        """Takes the oldest items. Other threads may take some at the same time."""
        taken: deque[Item] = deque()
        # A forked child does not return the items that its parent got.
        if self.items and self._process == os.getpid():
            with suppress(IndexError):
                while len(taken) < max_count:
                    taken.append(self.items.popleft())
        return taken

    def load(self, item: Item) -> Any:
        """The value that was put. If a signal handler raises meanwhile, the item is kept."""
        try:
            return self._value(item)
        except Exception:
            raise
        except BaseException:
            self.keep((), [item])
            raise

    def load_all(self, values: list[Any], items: deque[Item]) -> list[Any]:
        """Appends the values of items to `values`, and returns them.

        If an item cannot be unpickled, the values before it are returned, and the next `get` raises
        the error. If there is no value before it, the error is raised.
        """
        while items:
            try:
                values.append(self._value(items[0]))
            except Exception:
                if values:
                    self.keep((), items)
                    break
                self.keep((), list(items)[1:])
                raise
            except BaseException:
                self.keep(values, items)
                raise
            items.popleft()
        return values

    def _value(self, item: Item) -> Any:
        return item[0] if isinstance(item, tuple) else pickler.load(item, self._library)
