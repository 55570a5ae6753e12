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
    """Keeps tensors for all that have the handle, until it is closed. Made by `tensorbus.share`.

    Without a `ttl`, the share is closed when the last reference to this object is dropped.
    """

    _in_a_child = "send its handle"

    def __init__(self, core: _core.Shared) -> None:
        self._core = core
        self._handle = Handle(core.handle.bytes())

    @property
    def handle(self) -> Handle:
        """What others attach by."""
        return self._handle

    @property
    def open(self) -> bool:
        """Can anybody attach still? Not when it is closed, or its uses or its time are spent."""
        return self._core.open

    def close(self) -> None:
        """Nobody new can attach; who has attached keeps what they have."""
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
    """Keeps a tensor, or a message of tensors, for whoever has the handle.

    Tensors that lie in memory of the bus (loans, `tensorbus.empty`, what was received or attached)
    are shared as they are; all others are copied once, without the GIL.

    Args:
        data: a tensor, or what a message may be, see `tensorbus.Publisher.publish`.
        uses: so many may attach, then it is over; `None` for any number.
        ttl: seconds after which it is over, whether anybody came or not; until then it goes on also
            without the returned object. `None`: until that object is closed or dropped.
        shared: who attaches with `access="shared"` may write to it, and all see that.
        stream: see `tensorbus.Publisher.publish`.
        domain: see `tensorbus.participant`.

    Raises:
        Unsupported: something in it cannot travel.
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
    """What is behind a handle, by reference, in any process of the domain.

    Any number of times, for as long as it is shared. What was attached is valid for as long as any
    view of it lives, whatever happens to the process that shared it; it can be shared and published
    onwards, and is not copied for that.

    What a process of another machine shares comes by the bridges (docs/bridge.md): a copy, which
    all who attach on this machine have in common.

    Args:
        handle: as a `Handle`, its text, its bytes or its dictionary.
        access: what may be done with it, see `tensorbus.Subscriber`.
        library: whose tensors are wanted, see `tensorbus.Subscriber`.
        timeout: seconds to wait for the process that shares it; `None` for as long as it lives.
        domain: see `tensorbus.participant`.

    Raises:
        Closed: it is no longer shared, its process has exited, or is of a domain that no bridge
            reaches.
        InvalidArgument: a handle that was cut short, changed or made up.
        AccessDenied: `access="shared"` of what is not shared to be written, or is of another
            machine.
        Timeout: nobody answered in time.
        OutOfMemory: a limit was reached, here or in the process that shares it, which is tried
            again until the time-out, or for 5 seconds without one; the message names the limit.
    """
    wanted, grant, home = library_or_none(library), access_named(access), participant(domain)
    core = Handle(handle)._core
    try:
        found = _core.attach(core, grant, timeout, home)
    except Closed:
        from tensorbus._sharing import elsewhere  # it needs queues and services

        copy = elsewhere.copy_of(core, access, timeout, home)
        if copy is None:
            raise
        found = _core.attach(copy, grant, timeout, home)
    if isinstance(found, Outcome):
        raise Timeout("nobody answered in time: the process that shares it is stopped, or busy")
    return unflatten(found, wanted)


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

    Unlike a loan it may be shared and published any number of times, by reference, and written to
    all the while. A reader sees later writes for certain with `access="read"` or `"shared"`. With
    the default, "copy-on-write", a small tensor is a copy that was made when it was received, and
    a page that the reader has written is the reader's own.

    Args:
        shape, dtype, like, device: see `tensorbus.Publisher.loan`.
        shared: others may be given the right to write to it, too.
        domain: see `tensorbus.participant`.

    Raises:
        Unsupported: a dtype that no library has.
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
