"""Messages between bridges: what is sent of a sample, and what arrives."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable

from tensorbus import _core
from tensorbus._base.errors import OutOfMemory, Unsupported
from tensorbus.bridge._streams.stream import cost_of
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.frames import Begin, TensorEntry

_ALIGNED = 64  # bytes: where each range of a sample begins
_ZEROS = memoryview(bytes(_ALIGNED))

# Memory of the bus for so many bytes; OutOfMemory if there is none now.
Allocate = Callable[[int], memoryview]


class OutgoingMessage:
    """Fields, and the tensors of a received sample as the bytes that cross. It keeps the lease.

    Args:
        fields: what is sent beside the tensors; at most 1 MiB with their shapes.
        core: whose tensors are sent; None: none.

    Raises:
        Unsupported: fields and shapes are too large.
    """

    __slots__ = ("_ranges", "core", "fields", "lost", "size", "tensors")

    def __init__(self, fields: bytes, core: _core.Sample | None = None) -> None:
        self.core = core
        self.fields = fields
        self.lost = 0  # see `Begin`
        self.size = 0
        self.tensors: list[TensorEntry] = []
        self._ranges: list[memoryview] = []
        if core is not None:
            self._ranges, self.size, tensors = core.ranges()
            self.tensors = [
                TensorEntry(dtype, list(shape), list(strides), flags, offset)
                for dtype, shape, strides, flags, offset in tensors
            ]
        most = len(self.fields) + sum(60 + 18 * len(one.shape) for one in self.tensors) + 100
        if most > frames.MOST_BYTES:
            raise Unsupported(
                f"a message of {len(self.tensors)} tensors and {len(self.fields)} bytes of other "
                "values: between machines shapes and values have at most 1 MiB. Send a tensor of "
                "them"
            )

    @property
    def cost(self) -> int:
        return cost_of(self.size, len(self.fields))

    def begin(self, sequence: int, index: int) -> Begin:
        timestamp = 0 if self.core is None else self.core.timestamp_ns
        fingerprint = 0 if self.core is None else self.core.fingerprint
        return Begin(
            sequence,
            index,
            timestamp,
            fingerprint,
            self.fields,
            self.tensors,
            self.size,
            self.lost,
        )

    def pieces(self, most: int) -> deque[memoryview]:
        """Its bytes, at most `most` at a time."""
        pieces: deque[memoryview] = deque()
        at = 0
        for part in self._ranges:
            if at % _ALIGNED:
                gap = _ALIGNED - at % _ALIGNED
                pieces.append(_ZEROS[:gap])
                at += gap
            pieces.extend(part[begin : begin + most] for begin in range(0, len(part), most))
            at += len(part)
        return pieces


class IncomingMessage:
    """A message of which not all bytes are there, or which nobody has taken yet.

    Args:
        begin: what it is; the peer's words.
    """

    __slots__ = ("_allocate", "_filled", "_is_of_bus", "_view", "begin")

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self._allocate: Allocate | None = None
        self._filled = 0
        self._view: memoryview | None = None
        self._is_of_bus = False

    def make_room(self, allocate: Allocate, budget: int, *, keeps: bool) -> None:
        """Takes memory for its bytes. Without that they are thrown away.

        Args:
            budget: bytes; a larger message gets none.
            keeps: it waits in memory of this process where the bus has none: the credit bounds
                that, and the kernel gives such memory when it is used.
        """
        size = self.begin.size
        if not self.begin.tensors or size > budget:
            return
        self._allocate = allocate
        try:
            self._view = allocate(size)
            self._is_of_bus = True
        except OutOfMemory:
            if keeps:
                self._view = memoryview(mmap.mmap(-1, max(size, 1)))[:size]

    @property
    def has_no_memory(self) -> bool:
        """Its bytes are thrown away."""
        return self._view is None and bool(self.begin.tensors)

    def target(self, length: int) -> memoryview:
        """Where the next bytes of it go."""
        if self._view is None:
            return frames.discarded(length)
        return self._view[self._filled : self._filled + length]

    def filled(self, length: int) -> None:
        """So many more bytes have come."""
        self._filled += length

    def outgoing(self) -> _core.Outgoing:
        """Its tensors, to be handed on in the domain.

        Raises:
            OutOfMemory: there is no memory of the bus now.
            Error, TypeError: the peer wrote nonsense: tensors beyond their bytes, no dtype.
        """
        outgoing = _core.Outgoing()
        if not self.begin.tensors:
            return outgoing
        if self._view is None or self._allocate is None:
            raise OutOfMemory(f"a message of {self.begin.size} bytes does not fit into the budget")
        if not self._is_of_bus:
            whole = self._allocate(self.begin.size)
            whole[:] = self._view
            self._view, self._is_of_bus = whole, True
        for tensor in self.begin.tensors:
            outgoing.add_at(
                self._view,
                tensor.dtype,
                tensor.shape,
                tensor.strides,
                tensor.flags,
                tensor.offset,
            )
        return outgoing
