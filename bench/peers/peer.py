"""What a way of handing tensors over has to do to be measured."""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import torch

PATIENCE = 60.0  # seconds; only a failure takes as long


class Peer:
    """A way of handing tensors from one process to another, used as its documentation recommends.

    Made before both processes are forked, with what they inherit; each then opens its end. A
    message is a flat uint8 tensor whose first eight bytes are its number.

    Who has memory to lend lends it in `loan`, which is on the clock, as a tensor wherever it can be
    one. What fills it is the user's own work in any case and is not: `fill` only writes the number.
    """

    name: ClassVar[str]
    module: ClassVar[str | None] = None  # whose absence is the peer's
    needs: ClassVar[str | None] = None  # why it cannot be measured whatever is installed
    polls: ClassVar[bool] = False  # `receive` returns None when there is nothing yet
    fresh: ClassVar[bool] = False  # `make` is called for each message anew
    receives: ClassVar[bool] = True  # in the process that is forked for it
    streams: ClassVar[bool] = True  # a second message does not write over the first
    starts_slowly: ClassVar[bool] = False  # too slowly for a quick run
    patience: ClassVar[float] = PATIENCE

    def __init__(self, folder: Path) -> None:
        """`folder` is there for both, and empty: for sockets and domains."""
        self.folder = folder
        self.stack = ExitStack()

    @classmethod
    def absence(cls) -> str | None:
        """Why it cannot be measured here, or None."""
        if cls.needs is None and cls.module and importlib.util.find_spec(cls.module) is None:
            return f"{cls.module} is not installed (scripts/bench --peers installs all)"
        return cls.needs

    def open_sender(self) -> None:
        """Returns when a message would arrive; so does `open_receiver`."""

    def open_receiver(self) -> None:
        pass

    def make(self, size: int) -> torch.Tensor:
        """Off the clock: what the sender has. A new one's pages are all the same one of zeros, so
        that copying from it is cheaper than it would be, in favour of the peer."""
        return torch.zeros(size, dtype=torch.uint8)

    def loan(self, source: torch.Tensor) -> Any:
        """On the clock: what is sent, which for most is what the sender has."""
        return source

    def fill(self, message: Any, number: bytes) -> None:
        memoryview(message.numpy())[:8] = number

    def send(self, message: Any) -> None:
        raise NotImplementedError

    def receive(self) -> torch.Tensor | None:
        """The tensor in hand. Sleeps until it is there, unless it `polls`."""
        raise NotImplementedError

    def release(self) -> None:
        """The receiver has dropped the tensor: gives back what was held for it."""

    def answer(self) -> tuple[int, int, int]:
        """Of who `receives` elsewhere: see `harness.one_way.Stage.stamps`."""
        raise NotImplementedError

    def close(self) -> None:
        self.stack.close()
