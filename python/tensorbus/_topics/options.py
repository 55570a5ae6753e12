"""Types of keyword arguments that functions pass on to topics and to DLPack."""

from __future__ import annotations

from typing import Any, TypedDict

from tensorbus._base.arguments import Access
from tensorbus._tensors.library import Library


class PublisherOptions(TypedDict, total=False):
    """The keyword arguments of `Publisher`, without `depth` and `node`."""

    history: int
    reliable: bool
    lag_timeout: float | None
    shared: bool
    isolated: bool
    timeout: float | None
    domain: str | None


class SubscriberOptions(TypedDict, total=False):
    """The keyword arguments of `Subscriber`, without `depth`, `node` and those of liveliness."""

    timeout: float | None
    max_held: int
    reliable: bool
    end_of_stream: bool
    spin: float
    access: Access
    pin: bool
    device: Any
    library: Library | None
    domain: str | None


class DlpackOptions(TypedDict, total=False):
    """The keyword arguments of `__dlpack__`. Each library accepts some of them."""

    stream: Any
    max_version: tuple[int, int] | None
    dl_device: tuple[int, int] | None
    copy: bool | None
