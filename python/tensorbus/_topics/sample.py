"""What a subscriber receives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from tensorbus import _core
from tensorbus._base.closing import cannot_pickle
from tensorbus._base.device import device_of, stream_of
from tensorbus._base.errors import Unsupported
from tensorbus._base.generics import T
from tensorbus._base.public import public
from tensorbus._codec.fields import unflatten
from tensorbus._tensors import numpy_arrays
from tensorbus._tensors.library import CONJUGATE, NEGATIVE, Library

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._codec.protocols import Plan
    from tensorbus._topics.options import DlpackOptions

_UNREAD = object()
_SHOWN = 4  # tensors of a message in its repr
REPLAY = "replay:"  # begins the machine's name of what `tensorbus play` publishes


@public
class Origin(NamedTuple):
    """Where a sample was published that a bridge, or the player of a recording, published again."""

    machine: str  # its name; of a recording "replay:" and the file's name
    publisher: str  # there: the participant's id and the publisher's number in it

    @property
    def is_replay(self) -> bool:
        """It is from a recording, and not from another machine."""
        return self.machine.startswith(REPLAY)


@public
class Header(NamedTuple):
    """What came with a sample."""

    sequence: int  # counts from 0 for each publisher
    timestamp_ns: int  # wall clock at publish
    topic: str
    publisher: str  # the participant's id and the publisher's number in it
    fingerprint: int  # of the message type; 0: untyped
    origin: Origin | None = None  # None: it was published on this machine, now


@public
class Sample(Generic[T]):
    """One received message. Its tensors stay valid for as long as any view of them lives.

    A sample of one tensor offers DLPack itself, `torch.from_dlpack(sample)`, and is an array for
    NumPy: `np.asarray(sample)`. Neither copies.
    """

    # Made by sample_of(), without an __init__: that would take half as long as receiving does.
    __slots__ = ("_core", "_data", "_header", "_library", "_plan")
    _library: Library | None
    _core: _core.Sample
    _data: T
    _header: Header | None
    _plan: Plan | None

    @property
    def header(self) -> Header:
        """Sequence, timestamp, topic, publisher, origin."""
        if self._header is None:
            core = self._core
            self._header = Header(
                core.sequence,
                core.timestamp_ns,
                core.topic,
                f"{core.publisher}.{core.publisher_number}",
                core.fingerprint,
                None if core.origin is None else Origin(*core.origin),
            )
        return self._header

    @property
    def data(self) -> T:
        """What was published, with its tensors; the same objects every time.

        Of a subscriber with a message type, an instance of that.

        Raises:
            ProtocolError: the publisher sent fields that make no sense.
            MessageError: a field is missing, or not of its type.
            Unsupported: a tensor of a library, or a message of a type, that is not known here.
        """
        if self._data is _UNREAD:
            plan = None if self._plan is None else self._plan.core
            self._data = self._core.message(self._library, plan)
        return self._data

    def copy(self) -> Sample[T]:
        """The same sample in memory of this process alone, which can be written to.

        It holds no lease, so that any number of copies can be kept. The copy is made without the
        GIL; of tensors on a GPU there, in the order of its streams.

        Raises:
            OutOfMemory: there is no room for it.

        >>> from tensorbus import Publisher, Subscriber
        >>> import numpy as np
        >>> with Publisher("doc/copy", history=1) as publisher:
        ...     publisher.publish(np.arange(3))
        ...     with Subscriber("doc/copy", timeout=10) as subscriber:
        ...         kept = subscriber.receive().copy()
        0
        >>> kept.data[0] = 7
        >>> kept.data
        array([7, 1, 2])
        """
        return sample_of(self._core.copy(), self._library, self._plan)

    def use_on(self, stream: Any) -> None:
        """Has a stream work with the tensors of it that lie on a GPU.

        What is enqueued on the stream from now on finds them as they were published, and has run
        before their memory is used again. To be called for each stream but the one that was
        current, in PyTorch, when `data` was first asked for: that one is known. It does not wait.

        Args:
            stream: of PyTorch or CuPy, what has `__cuda_stream__`, or its handle as an int. One of
                PyTorch or CuPy may be of another GPU that can reach the tensors' memory.

        Raises:
            Unsupported: the stream is being captured into a graph.
        """
        self._core.use_on(stream_of(stream), device_of(stream))

    @property
    def intact(self) -> bool:
        """False: its publisher died before the GPU had written it.

        Asked after the work with it is done, it says whether that was for nothing.
        """
        return bool(self._core.intact)

    @property
    def published_on(self) -> tuple[str, ...]:
        """Where the publisher had each tensor: "cpu", or "cuda:0" and so on.

        What came from a GPU that this process cannot use lies in main memory: see `docs/cuda.md`.
        """
        devices: tuple[str, ...] = self._core.published_on
        return devices

    def __dlpack__(self, **options: Unpack[DlpackOptions]) -> Any:
        """The tensor that it is, as a DLPack capsule (https://data-apis.org/array-api/latest/).

        Raises:
            Unsupported: it is not one tensor, or a conjugate or negative view.
        """
        return self._exporter().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the tensor that it is lies: (1, 0), main memory."""
        device: tuple[int, int] = self._exporter().__dlpack_device__()
        return device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The tensor that it is, for `np.asarray(sample)`: read-only if `data` would be.

        Raises:
            Unsupported: it is not one tensor, or NumPy cannot show it.
            ValueError: `copy=False`, and another dtype is wanted.
        """
        np = numpy_arrays.learn()
        array = unflatten(self._core, "numpy") if self._plan is None else self.data
        if isinstance(array, memoryview):
            array = np.asarray(array)
        if not isinstance(array, np.ndarray):
            raise Unsupported(
                f"this sample has {self._core.tensor_count} tensors in a message: a NumPy array is "
                "one tensor by itself, use .data"
            )
        wanted = array if dtype is None else array.astype(dtype, copy=False)
        if copy is False and wanted is not array:
            raise ValueError(f"copy=False: an array of {array.dtype} as {wanted.dtype} is a copy")
        return wanted.copy() if copy and wanted is array else wanted

    def _exporter(self) -> Any:
        core = self._core
        if core.tensor_count == 1 and not core.fields:
            memory = core.memory(0)
            if memory.flags & (CONJUGATE | NEGATIVE):
                raise Unsupported("DLPack has no conjugate and no negative views: use .data")
            return memory
        if isinstance(self.data, memoryview):
            return core.memory(0)
        if not hasattr(self.data, "__dlpack__"):
            raise Unsupported(
                f"this sample has {core.tensor_count} tensors in a message: DLPack is for one "
                "tensor by itself, use .data"
            )
        return self.data

    def __reduce__(self) -> tuple[Any, ...]:
        raise cannot_pickle(self, "send its data; to keep a copy here, use sample.copy()")

    def __repr__(self) -> str:
        core = self._core
        age = format_age(time.time_ns() - core.timestamp_ns)
        return (
            f"<tensorbus.Sample {core.topic!r} sequence={core.sequence} "
            f"{self._shown_tensors()} age={age}>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: a table of the fields, with thumbnails of images."""
        from tensorbus._topics.preview import preview

        return preview(repr(self), lambda: self.data)

    def _shown_tensors(self) -> str:
        """Shape and dtype of the tensor, or of the first few tensors of a message."""
        core = self._core
        count = core.tensor_count
        shown = [_shown(core.memory(index)) for index in range(min(count, _SHOWN))]
        if count == 1 and not core.fields:
            return shown[0]
        more = ", ..." if count > _SHOWN else ""
        return f"tensors={count}" + (f" [{', '.join(shown)}{more}]" if shown else "")


def _shown(memory: _core.Memory) -> str:
    place = "" if memory.device == "cpu" else f" on {memory.device}"
    return f"{memory.dtype} {memory.shape}{place}"


def format_age(nanoseconds: int) -> str:
    """
    >>> format_age(-5), format_age(12_345), format_age(12_345_678), format_age(83 * 10**9)
    ('0.0 ms', '0.0 ms', '12.3 ms', '83.0 s')
    """
    milliseconds = max(nanoseconds, 0) / 1e6
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def sample_of(core: _core.Sample, library: Library | None, plan: Plan | None) -> Sample[Any]:
    """What the core received, as a subscriber gives it out.

    Args:
        core: what was received.
        library: whose tensors it is to have; None for those of what it was sent from.
        plan: of the subscriber's message type, if it has one.
    """
    sample: Sample[Any] = Sample()
    sample._core = core
    sample._library = library
    sample._plan = plan
    sample._data = _UNREAD
    sample._header = None
    return sample
