"""Reading of recordings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from tensorbus import _core
from tensorbus._base.closing import Closing
from tensorbus._base.errors import Closed, InvalidArgument, TypeMismatch
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._inspection.units import rate_text
from tensorbus._recording.recorded_samples import RecordedSample, RecordedSamples
from tensorbus._tensors.library import Library, library_or_none

if TYPE_CHECKING:
    from tensorbus._base.generics import MessageClass, T
    from tensorbus._recording.dataset import RecordingDataset

END = 2**64 - 1  # ns since 1970


@public
@dataclass(frozen=True)
class RecordedTopic:
    """A topic in a recording."""

    name: str
    """The name of the topic."""
    types: tuple[str, ...]
    """The definitions of the published types, usually one; empty: any data.

    For messages that other programs recorded, the name of their schema.
    """
    publishers: int
    """Publishers whose messages were recorded."""
    messages: int
    """Messages in the file."""
    lost: int
    """Messages that were published during the recording and are not in the file."""
    start_ns: int
    """When the first message was recorded, in nanoseconds since 1970; 0: there is none."""
    end_ns: int
    """When the last message was recorded, in nanoseconds since 1970; 0: there is none."""

    @property
    def duration(self) -> float:
        """Seconds from the first message to the last."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def rate(self) -> float:
        """Messages per second; 0.0 for fewer than two messages."""
        return (self.messages - 1) / self.duration if self.duration > 0 else 0.0


# The columns of a table of topics. A ">" aligns a column at its right.
TOPIC_COLUMNS = ("topic", "type", ">messages", ">rate Hz", ">lost", ">publishers")


def topic_row(topic: RecordedTopic) -> tuple[object, ...]:
    """The row of a topic in a table with `TOPIC_COLUMNS`."""
    types = ", ".join(definition.partition("\n")[0] for definition in topic.types)
    rate = rate_text(topic.rate if topic.messages > 1 else None)
    return topic.name, types or "-", topic.messages, rate, topic.lost, topic.publishers


@public
class Recording(Closing, Sequence[RecordedSample[Any]]):
    """A file that a `Recorder` has written: a sequence of its samples, by recording time.

    The file is mapped; the system reads a page when it is first used. Tensors are read-only views
    of the file, and keep the mapping as long as they exist. When one of them is published or
    shared, the file is lent instead of copied. If the recorder was killed, opening its file
    searches it for messages.

    Args:
        path: the file.
        library: the library of the samples' tensors; by default the library of the publisher.

    Raises:
        OSError: `open` raised it (FileNotFoundError, PermissionError, ...).
        InvalidArgument: the file is not a recording; the message gives the reason.
        Unsupported: the library of a compression is not installed; the message names it.

    >>> import os, tempfile
    >>> from tensorbus import Publisher, Recorder
    >>> path = os.path.join(tempfile.mkdtemp(), "run.mcap")
    >>> with Publisher("doc/recording", reliable=True) as publisher:
    ...     with Recorder(path, all=True, reliable=True):
    ...         publisher.wait_for_subscribers(timeout=10)
    ...         for number in range(3):
    ...             _ = publisher.publish(number)
    True
    >>> recording = Recording(path)
    >>> recording.topics["doc/recording"].messages, len(recording), recording[-1].data
    (3, 3, 2)
    >>> [sample.data for sample in recording[1:]]
    [1, 2]
    """

    _in_a_child = "open the file in the child"

    def __init__(self, path: str | os.PathLike[str], *, library: Library | None = None) -> None:
        self._path = os.fsdecode(path)
        self._library = library_or_none(library)
        with open(self._path, "rb", opener=_without_waiting):  # raises Python's own errors
            pass
        self._core: _core.Recording | None = _core.Recording(self._path)
        self._topics: dict[str, RecordedTopic] | None = None

    @property
    def path(self) -> str:
        """The file's path, as it was given."""
        return self._path

    @property
    def topics(self) -> dict[str, RecordedTopic]:
        """The recorded topics, by name."""
        if self._topics is None:
            self._topics = _topics_of(self._open())
        return dict(self._topics)

    @property
    def about(self) -> dict[str, str]:
        """Properties of the recorder: version, host, domain, when it started."""
        return self._open().about

    @property
    def file_bytes(self) -> int:
        """The size of the file when it was opened."""
        return self._open().file_bytes

    @property
    def start_ns(self) -> int:
        """When the first message was recorded, in nanoseconds since 1970; 0: there is none."""
        return self.time_ns(0) if len(self) else 0

    @property
    def end_ns(self) -> int:
        """When the last message was recorded, in nanoseconds since 1970; 0: there is none."""
        return self.time_ns(-1) if len(self) else 0

    @property
    def duration(self) -> float:
        """Seconds from the first message to the last."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def lost(self) -> int:
        """Messages that were published during the recording and are not in the file."""
        return sum(topic.lost for topic in self.topics.values())

    @property
    def recovered(self) -> str:
        """Why the file was searched for messages, and where they end; "": the file is complete.

        The text begins with the name of the file.
        """
        return self._about_file(self._open().recovered)

    @property
    def damage(self) -> str:
        """The part of the file that could not be read; "": no damage.

        The text begins with the name of the file. Iteration raises it as an `InvalidArgument` after
        the last sample.
        """
        return self._about_file(self._open().damage)

    def _about_file(self, text: str) -> str:
        return f"file {self._path!r}: {text}" if text else ""

    def time_ns(self, index: int) -> int:
        """When a message was recorded, in nanoseconds since 1970.

        Raises:
            IndexError: there is no message with this index.
        """
        return self._open().time(self._checked(index))

    def index_at(self, time_ns: int) -> int:
        """The index of the first message that was recorded at this time or later.

        `len(recording)` if there is none.
        """
        return len(self._open()) - len(self._numbers((), time_ns, END))

    def select(
        self,
        *topics: str,
        message_type: MessageClass[T] | None = None,
        start_ns: int = 0,
        end_ns: int = END,
    ) -> RecordedSamples[T]:
        """The samples of some topics, or of all, within a time span.

        Args:
            topics: names of topics; empty for all.
            message_type: as for a `Subscriber`.
            start_ns: the earliest recording time, in nanoseconds since 1970.
            end_ns: the end of the recording times, itself excluded.

        Raises:
            InvalidArgument: a topic was not recorded.
            TypeMismatch: the recorded messages cannot be read as this type.
        """
        plan = plan_or_none(message_type)
        for name in topics:
            found = self.topics.get(name)
            if found is None:
                known = ", ".join(map(repr, self.topics)) or "none"
                raise InvalidArgument(
                    f"file {self._path!r}: no topic {name!r}; its topics: {known}"
                )
            for definition in found.types if plan is not None else ():
                if plan is not None and (why := _core.why_not(plan.definition, definition)):
                    raise TypeMismatch(f"file {self._path!r}: topic {name!r}: {why}")
        numbers = self._numbers(topics, start_ns, end_ns)
        return RecordedSamples(self._open(), self._path, numbers, self._library, plan)

    def dataset(
        self,
        topic: str,
        *,
        window: int | None = None,
        step: int = 1,
        message_type: MessageClass[Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        start_ns: int = 0,
        end_ns: int = END,
        library: Library | None = "torch",
    ) -> RecordingDataset:
        """The messages of a topic as a `torch.utils.data.Dataset`, for a `DataLoader`.

        An item is the data of a message. Its tensors are read-only views of the file, which each
        worker maps for itself.

        Args:
            topic: the topic's name.
            window: the number of consecutive messages in an item, which is then a list; by default
                an item is one message.
            step: distance from one item to the next, in messages.
            message_type: as for a `Subscriber`.
            transform: called with the `Sample`, or with the list of samples of a window; its result
                is the item.
            start_ns, end_ns: as for `select`.
            library: the library of the tensors; `None`: the library of the publisher.

        Raises:
            InvalidArgument: the topic was not recorded, or a number is out of range.
            TypeMismatch: the recorded messages cannot be read as this type.
        """
        from tensorbus._recording.dataset import Place, RecordingDataset

        begin, end = (min(max(bound, 0), END) for bound in (start_ns, end_ns))
        samples = self.select(topic, message_type=message_type, start_ns=start_ns, end_ns=end_ns)
        place = Place(
            self._path,
            self.about,
            topic,
            message_type,
            begin,
            end,
            len(samples),
            library_or_none(library),
        )
        return RecordingDataset(place, window, step, transform)

    def check(self) -> None:
        """Raises an error if the mapped memory may differ from the file: see `MappedFile.check`."""
        self._open().check()

    def close(self) -> None:
        """Closes the file. Held samples stay valid."""
        self._core = None

    def __len__(self) -> int:
        return len(self._open())

    @overload
    def __getitem__(self, index: int) -> RecordedSample[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> RecordedSamples[Any]: ...
    def __getitem__(self, index: int | slice) -> RecordedSample[Any] | RecordedSamples[Any]:
        return self._all()[index]

    def __iter__(self) -> Iterator[RecordedSample[Any]]:
        return iter(self._all())

    def __repr__(self) -> str:
        if self._core is None:
            return f"<tensorbus.Recording {self._path!r} closed>"
        return (
            f"<tensorbus.Recording {self._path!r} topics={len(self.topics)} "
            f"messages={len(self)} duration={self.duration:.3f} s>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: a table of the topics."""
        from tensorbus._base.html import grid

        topics = () if self._core is None else self.topics.values()
        return grid(repr(self), TOPIC_COLUMNS, map(topic_row, topics), len(topics))

    def _all(self) -> RecordedSamples[Any]:
        core = self._open()
        return RecordedSamples(core, self._path, range(len(core)), self._library, None)

    def _numbers(self, topics: Sequence[str], start_ns: int, end_ns: int) -> Sequence[int]:
        bounds = (min(max(bound, 0), END) for bound in (start_ns, end_ns))
        return memoryview(self._open().select(topics, *bounds)).cast("I")

    def _checked(self, index: int) -> int:
        return range(len(self))[index]  # a negative index counts from the end

    def _open(self) -> _core.Recording:
        if self._core is None:
            raise Closed(f"file {self._path!r} is closed")
        return self._core


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file without waiting for the writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def _topics_of(core: _core.Recording) -> dict[str, RecordedTopic]:
    return {name: RecordedTopic(name, tuple(types), *rest) for name, types, *rest in core.topics}
