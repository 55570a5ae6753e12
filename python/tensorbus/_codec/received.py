"""Received messages as values of other messages."""

from __future__ import annotations

from typing import Any

from tensorbus._base.errors import CannotTravel


class Received:
    """Base of received samples. Where a value is sent, a sample stands for its data."""

    __slots__ = ()

    @property
    def data(self) -> Any:
        """The message."""
        raise NotImplementedError


class SampleInside(CannotTravel):
    """A message contains a sample whose data the packer cannot pack in its place.

    The sender catches it, and packs the message that `without_samples` returns.
    """

    def __init__(self, sample: Received) -> None:
        super().__init__(sample, "a sample of a message cannot be sent here: send its data")
