"""Sharing tensors by handle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorbus import _core
from tensorbus._base.arguments import Access, access_named, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.device import stream_of
from tensorbus._base.errors import Closed, InvalidArgument, Timeout
from tensorbus._base.participant import participant
from tensorbus._base.public import public
from tensorbus._codec.fields import flatten, unflatten
from tensorbus._codec.handle import Handle
from tensorbus._core import Outcome
from tensorbus._tensors.allocation import tensor_in
from tensorbus._tensors.library import Library, library_or_none


@public
class Shared(Closing):
    """A share: keeps tensors for all holders of its handle. Made by `tensorbus.share`.

    It ends when it is closed. Without a `ttl`, it also ends when the last reference to this object
    is dropped.
    """

    _in_a_child = "send its handle"

    def __init__(self, core: _core.Shared) -> None:
        self._core = core
        self._handle = Handle(core.handle.bytes())

    @property
    def handle(self) -> Handle:
        """The handle for `attach`."""
        return self._handle

    @property
    def open(self) -> bool:
        """Whether `attach` still works: False once it is closed, or `uses` or `ttl` has run out."""
        return self._core.open

    def close(self) -> None:
        """Refuses further `attach` calls; tensors that were attached stay valid."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<tensorbus.Shared {self._handle!r} {'open' if self.open else 'closed'}>"


@public
def share(
    data: Any,
    *,
    uses: int | None = None,
    ttl: float | None = None,
    shared: bool = False,
    stream: Any = None,
    domain: str | None = None,
) -> Shared:
    """Shares a tensor, or a message of tensors, by a handle.

    Tensors in memory of the bus (loans, `tensorbus.empty`, received or attached tensors) are shared
    without a copy; others are copied once, without the GIL.

    Args:
        data: a tensor or message, see `tensorbus.Publisher.publish`.
        uses: how many `attach` calls succeed before the share ends; `None` for any number.
        ttl: seconds after which the share ends, used or not; until then it also outlives the
            returned object. `None`: the share ends when that object is closed or dropped.
        shared: processes that attach with `access="shared"` may write to the tensors, and the
            writes are visible to all.
        stream: see `tensorbus.Publisher.publish`.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: `uses` is less than 1, or `ttl` is not above 0.
        Unsupported: the data contains a value that cannot be sent.
        OutOfMemory: a limit was reached; the message names it.

    >>> import numpy as np
    >>> with share({"image": np.arange(3), "id": 7}) as shared:
    ...     attach(shared.handle)
    {'image': array([0, 1, 2]), 'id': 7}
    """
    if ttl is not None and not ttl > 0:
        raise InvalidArgument(f"ttl={ttl!r}: expected seconds, or None")
    count = 0 if uses is None else whole_number("uses", uses, low=1)
    outgoing, fields = flatten(data)
    if stream is not None:
        outgoing.set_stream(stream_of(stream))
    return Shared(_core.share(outgoing, fields, count, ttl, shared, participant(domain)))


@public
def attach(
    handle: Handle | str | bytes | Mapping[str, Any],
    *,
    access: Access = "copy-on-write",
    library: Library | None = None,
    timeout: float | None = None,
    domain: str | None = None,
) -> Any:
    """Returns the shared tensor or message of a handle, by reference, in any process of the domain.

    It can be called any number of times while the share is open. Attached tensors stay valid as
    long as any view of them exists, even if the sharing process ends. They can be shared and
    published again without a copy.

    For a share of another machine, the bridges fetch a copy (docs/bridge.md). All processes of this
    machine that attach use the same copy.

    Args:
        handle: a `Handle`, its text, its bytes or its dictionary.
        access: the access to the tensors, see `tensorbus.Subscriber`.
        library: the library of the tensors, see `tensorbus.Subscriber`.
        timeout: seconds to wait for the sharing process; `None`: until that process ends.
        domain: see `tensorbus.participant`.

    Raises:
        Closed: the share is closed, its process has ended, or it belongs to a domain that no bridge
            reaches.
        InvalidArgument: the handle is truncated, changed or forged.
        AccessDenied: `access="shared"` for a share without `shared=True`, or of another machine.
        Timeout: the sharing process did not reply in time.
        OutOfMemory: a limit of this process or of the sharing process was reached, until the end of
            `timeout` (`None`: for 5 seconds); the message names the limit.
    """
    library, grant, home = library_or_none(library), access_named(access), participant(domain)
    core = Handle(handle)._core
    try:
        sample = _core.attach(core, grant, timeout, home)
    except Closed:
        from tensorbus._sharing import elsewhere  # late: it imports queues and services

        copy = elsewhere.copy_of(core, access, timeout, home)
        if copy is None:
            raise
        sample = _core.attach(copy, grant, timeout, home)
    if isinstance(sample, Outcome):
        raise Timeout("no reply in time: the share's process is stopped, or very busy")
    return unflatten(sample, library)


@public
def empty(
    shape: Any = None,
    dtype: Any = None,
    *,
    like: Any = None,
    device: Any = None,
    shared: bool = False,
    domain: str | None = None,
) -> Any:
    """A tensor in shared memory that this process keeps. Its bytes are not cleared.

    Unlike a loan, it may be shared and published any number of times, by reference, and this
    process may write to it at any time. Later writes are certain to be visible only to readers with
    `access="read"` or `"shared"`. With the default, "copy-on-write", a small tensor is copied when
    it is received, and a page that a reader has written is private to that reader.

    Args:
        shape, dtype, like, device: see `tensorbus.Publisher.loan`.
        shared: other processes may get write access, too.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument, Unsupported: as `tensorbus.Publisher.loan`.
        OutOfMemory: a limit was reached; the message names it.

    >>> weights = empty((2, 2), "float32")
    >>> weights[:] = 1
    >>> with share(weights) as shared:
    ...     seen = attach(shared.handle, access="read")
    >>> weights[0, 0] = 5
    >>> float(seen[0, 0])
    5.0
    """
    home = participant(domain)

    def allocate(name: str, sizes: list[int], ordinal: int) -> _core.Memory:
        return _core.empty(name, sizes, shared, home, ordinal)

    return tensor_in(allocate, shape, dtype, like, device)
