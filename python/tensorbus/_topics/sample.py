"""Received samples and their headers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tensorbus import _core
from tensorbus._base.closing import cannot_pickle
from tensorbus._base.device import device_of, stream_of
from tensorbus._base.errors import Unsupported
from tensorbus._base.generics import T
from tensorbus._base.listed import Listed
from tensorbus._base.public import public
from tensorbus._codec.fields import unflatten
from tensorbus._codec.received import Received
from tensorbus._tensors import numpy_arrays
from tensorbus._tensors.library import CONJUGATE, NEGATIVE, Library

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tensorbus._codec.protocols import Plan
    from tensorbus._topics.options import DlpackOptions

_UNREAD = object()
_MAX_SHOWN = 4  # tensors of a message in its repr
REPLAY = "replay:"  # prefix of the machine's name in samples that `tensorbus play` publishes


@public
class Origin(NamedTuple):
    """The original publisher of a sample that a bridge or the player of a recording published."""

    machine: str
    """The name of its machine; for a recording, "replay:" and the name of the file."""
    publisher: str
    """Its name on that machine: the participant's id, ".", and the publisher's number in it."""

    @property
    def is_replay(self) -> bool:
        """True for a sample of a recording; False for a sample of another machine."""
        return self.machine.startswith(REPLAY)


@public
class Header(NamedTuple):
    """The metadata of a sample."""

    sequence: int
    """The number of the sample; each publisher counts from 0."""
    timestamp_ns: int
    """The wall clock when it was published, in nanoseconds since 1970."""
    topic: str
    """The name of the topic on which it was published."""
    publisher: str
    """The name of its publisher: the participant's id, ".", and the publisher's number in it."""
    fingerprint: int
    """The fingerprint of the message type; 0 if it has none."""
    origin: Origin | None = None
    """The original publisher, if a bridge or a player published the sample; else `None`."""


@public
class Sample(Received, Generic[T]):
    """One received message. Its tensors stay valid as long as any view of them exists.

    It can be published, put, shared and sent as it is, alone or inside a message: it then stands
    for its `data`, whose tensors go by reference.

    A sample of a single tensor supports DLPack, `torch.from_dlpack(sample)`, and NumPy,
    `np.asarray(sample)`. Neither copies.
    """

    # sample_of() makes it, without an __init__, which would take half as long as a whole receive.
    __slots__ = ("_core", "_data", "_header", "_library", "_plan")
    _library: Library | None
    _core: _core.Sample
    _data: T
    _header: Header | None
    _plan: Plan | None

    @property
    def header(self) -> Header:
        """The metadata: sequence, timestamp, topic, publisher, fingerprint and origin."""
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
        """The published message with its tensors; each access returns the same objects.

        If the subscriber has a message type, the message is an instance of that type.

        Raises:
            ProtocolError: the publisher sent malformed fields.
            MessageError: a field is missing, or has the wrong type.
            Unsupported: the library or the class of a tensor is not available in this process.
        """
        if self._data is _UNREAD:
            plan = None if self._plan is None else self._plan.core
            self._data = self._core.message(self._library, plan)
        return self._data

    def copy(self) -> Sample[T]:
        """A copy of the sample in writable memory of this process alone.

        It holds no lease, so any number of copies can be kept. The copy is made without the GIL.
        Tensors on a GPU are copied on that GPU, in stream order.

        Raises:
            OutOfMemory: there is not enough memory for the copy.

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
        """Makes the sample's tensors on a GPU safe to use on a stream. It does not wait.

        Work that is enqueued on the stream from now on reads the tensors as they were published,
        and their memory is not reused before that work has run. Call it for each stream that uses
        the tensors, except for the stream that is PyTorch's current stream at the first access to
        `data`: that access registers it.

        Args:
            stream: a stream of PyTorch or CuPy, an object with `__cuda_stream__`, or a handle as
                an int. A stream of PyTorch or CuPy may belong to another GPU that can reach the
                tensors' memory.

        Raises:
            Unsupported: the stream is being captured into a graph.
        """
        self._core.use_on(stream_of(stream), device_of(stream))

    @property
    def intact(self) -> bool:
        """False if the publisher died before its GPU had written the tensors.

        Check it after the work with the tensors: if it is False, discard the result.
        """
        return bool(self._core.intact)

    @property
    def published_on(self) -> tuple[str, ...]:
        """The publisher's device of each tensor: "cpu", "cuda:0" and so on.

        Tensors of a GPU that this process cannot use arrive in main memory: see docs/cuda.md.
        """
        devices: tuple[str, ...] = self._core.published_on
        return devices

    def __dlpack__(self, **options: Unpack[DlpackOptions]) -> Any:
        """The sample's only tensor as a DLPack capsule (https://data-apis.org/array-api/latest/).

        Raises:
            Unsupported: the sample is not a single tensor, or the tensor is a conjugate or negative
                view.
        """
        return self._exporter().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The DLPack device of the sample's only tensor; (1, 0) is main memory."""
        device: tuple[int, int] = self._exporter().__dlpack_device__()
        return device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The sample's only tensor for `np.asarray(sample)`: read-only if `data` is.

        Raises:
            Unsupported: the sample is not a single tensor, or NumPy cannot represent it.
            ValueError: `copy=False` with a dtype that needs a copy.
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
        shown = [_shown(core.memory(index)) for index in range(min(count, _MAX_SHOWN))]
        if count == 1 and not core.fields:
            return shown[0]
        more = ", ..." if count > _MAX_SHOWN else ""
        return f"tensors={count}" + (f" [{', '.join(shown)}{more}]" if shown else "")


def _shown(memory: _core.Memory) -> str:
    place = "" if memory.device == "cpu" else f" on {memory.device}"
    return f"{memory.dtype} {memory.shape}{place}"


def format_age(nanoseconds: int) -> str:
    """A duration as text, in ms or s; negative durations are shown as 0.

    >>> format_age(-5), format_age(12_345), format_age(12_345_678), format_age(83 * 10**9)
    ('0.0 ms', '0.0 ms', '12.3 ms', '83.0 s')
    """
    milliseconds = max(nanoseconds, 0) / 1e6
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


class Samples(Listed[Sample[T]]):
    """A list of samples; a notebook shows their fields, with thumbnails of images."""

    __slots__ = ()
    _kind = Sample

    def _table(self) -> str:
        from tensorbus._topics.preview import preview_list

        now = time.time_ns()
        return preview_list(
            f"samples: {len(self)}",
            self,
            "age",
            lambda sample: format_age(now - sample.header.timestamp_ns),
        )


Made = TypeVar("Made", bound=Sample[Any])


def sample_of(
    core: _core.Sample,
    library: Library | None,
    plan: Plan | None,
    kind: type[Made] = Sample,  # type: ignore[assignment]
) -> Made:
    """The public sample over a sample of the core.

    Args:
        core: the received sample.
        library: the library of its tensors; None for the library that each was sent from.
        plan: the plan of the subscriber's message type, if it has one.
        kind: the class of the sample.
    """
    sample = kind()
    sample._core = core
    sample._library = library
    sample._plan = plan
    sample._data = _UNREAD
    sample._header = None
    return sample
