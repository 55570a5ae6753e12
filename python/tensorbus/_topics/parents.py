"""Parents: the samples from which a program computed a published sample (docs/tracing.md).

Only tracers use them. They are stored as headers, which keep no memory of the samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any

from tensorbus._topics.sample import Header, Sample

_named: ContextVar[tuple[Header, ...]] = ContextVar("tensorbus parents", default=())


class Parents:
    """Context in which these samples are the parents of everything that this task publishes."""

    __slots__ = ("_headers", "_token")

    def __init__(self, parents: Iterable[Sample[Any] | Header]) -> None:
        self._headers = tuple(_header_of(parent) for parent in parents)

    def __enter__(self) -> None:
        self._token: Token[tuple[Header, ...]] = _named.set(self._headers)

    def __exit__(self, *_: object) -> None:
        _named.reset(self._token)


def _header_of(parent: Sample[Any] | Header) -> Header:
    if isinstance(parent, Sample):
        return parent.header
    if isinstance(parent, Header):
        return parent
    raise TypeError(f"parents: expected samples or their headers, got {type(parent).__name__}")


def named() -> list[tuple[str, int]]:
    """Publisher and sequence number of each parent. The extension calls it when it traces."""
    return [(header.publisher, header.sequence) for header in _named.get()]
