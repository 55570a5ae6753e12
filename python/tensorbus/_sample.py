"""What a subscriber receives."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import DecodeError

from tensorbus import _core
from tensorbus._errors import ProtocolError
from tensorbus._fields import unflatten
from tensorbus._tensors import Library, tensor_from


class Header(NamedTuple):
    """What came with a sample."""

    sequence: int  # counts from 0 for each publisher
    timestamp_ns: int  # wall clock at publish
    topic: str
    publisher: str  # the participant's id and the publisher's number in it
    fingerprint: int  # of the message type; 0: untyped


class Sample:
    """One received message. Its tensors stay valid for as long as any view of them lives."""

    __slots__ = ("_as", "_core", "_data", "_header")

    def __init__(self, core: _core.Sample, as_: Library | None) -> None:
        self._core: _core.Sample | None = core
        self._as = as_
        self._data: Any = None
        self._header = Header(
            core.sequence,
            core.timestamp_ns,
            core.topic,
            f"{core.publisher}.{core.publisher_number}",
            core.fingerprint,
        )

    @property
    def header(self) -> Header:
        """Sequence, timestamp, topic, publisher."""
        return self._header

    @property
    def data(self) -> Any:
        """What was published: the same tensors in the same dicts, lists and tuples.

        Raises:
            ProtocolError: the publisher sent fields that make no sense.
            Unsupported: a tensor of a library that is not installed here.
        """
        if self._core is not None:
            core = self._core
            memories = core.tensors

            def tensor(index: int) -> Any:
                if index >= len(memories):
                    raise ProtocolError(f"sample.fields: there is no tensor {index}")
                return tensor_from(memories[index], self._as)

            try:
                self._data = unflatten(core.fields, tensor, len(memories))
            except DecodeError as error:
                raise ProtocolError(f"sample.fields: {error}") from None
            self._core = None  # from here on the tensors alone hold the lease
        return self._data

    def __repr__(self) -> str:
        return f"<tensorbus.Sample {self._header.topic!r} sequence={self._header.sequence}>"
