"""Messages between bridges: outgoing ones from samples, and incoming ones."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable

from tensorbus import _core
from tensorbus._base.errors import OutOfMemory, Unsupported
from tensorbus.bridge._streams.stream import cost_of
from tensorbus.bridge._wire import frames
from tensorbus.bridge._wire.frames import Begin, TensorEntry

_ALIGNED = 64  # alignment of each range of a sample, in bytes
_ZEROS = memoryview(bytes(_ALIGNED))

# Returns memory of the bus of this size in bytes. Raises OutOfMemory if none is free.
Allocate = Callable[[int], memoryview]


class OutgoingMessage:
    """Fields and the tensors of a received sample, as bytes to send. It keeps the lease.

    Args:
        fields: sent with the tensors; at most 1 MiB including the shapes of the tensors.
        core: the sample whose tensors are sent; None: no tensors.

    Raises:
        Unsupported: fields and shapes are too large, or a tensor is on a GPU.
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
        if most > frames.MAX_BYTES:
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
        """Returns the bytes of the tensors, in pieces of at most `most` bytes."""
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
    """A message that is incomplete, or was not taken yet.

    Args:
        begin: the frame from the peer; not trusted.
    """

    __slots__ = ("_allocate", "_filled", "_is_of_bus", "_view", "begin")

    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self._allocate: Allocate | None = None
        self._filled = 0
        self._view: memoryview | None = None
        self._is_of_bus = False

    def make_room(self, allocate: Allocate, budget: int, *, keeps: bool) -> None:
        """Allocates memory for the bytes. Without memory they are discarded.

        Args:
            budget: in bytes; a larger message gets no memory.
            keeps: use memory of this process if the bus has none. The credit limits it, and the
                kernel commits it only when it is written.
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
        """True if the bytes are discarded."""
        return self._view is None and bool(self.begin.tensors)

    def target(self, length: int) -> memoryview:
        """Returns the buffer for the next `length` bytes."""
        if self._view is None:
            return frames.discarded(length)
        return self._view[self._filled : self._filled + length]

    def filled(self, length: int) -> None:
        """Counts `length` received bytes."""
        self._filled += length

    def outgoing(self) -> _core.Outgoing:
        """Returns the tensors, to be passed on in the domain.

        Raises:
            OutOfMemory: no memory of the bus is free.
            Error, TypeError: the peer sent an invalid dtype, or a tensor outside its bytes.
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
