"""Selected samples of a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, overload

from tensorbus import _core
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.generics import T
from tensorbus._base.public import public
from tensorbus._tensors.library import Library
from tensorbus._topics.sample import Sample, sample_of

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Plan


@public
class RecordedSample(Sample[T]):
    """A sample of a `Recording`, with the time at which it was recorded."""

    __slots__ = ("_time_ns",)
    _time_ns: int

    @property
    def time_ns(self) -> int:
        """When it was recorded, in nanoseconds since 1970.

        The time of publishing is `header.timestamp_ns`.
        """
        return self._time_ns

    def copy(self) -> RecordedSample[T]:
        """A copy in writable memory of this process alone: see `Sample.copy`."""
        return recorded_sample(self._core.copy(), self._library, self._plan, self._time_ns)


def recorded_sample(
    core: _core.Sample, library: Library | None, plan: Plan | None, time_ns: int
) -> RecordedSample[Any]:
    """The public sample over a sample of the core: see `sample_of`."""
    sample: RecordedSample[Any] = sample_of(core, library, plan, RecordedSample)
    sample._time_ns = time_ns
    return sample


@public
class RecordedSamples(Sequence[RecordedSample[T]], Generic[T]):
    """Samples of a `Recording`, in the order of their recording times.

    Made by `recording.select()`, and by slices of a recording or of these samples.
    """

    def __init__(
        self,
        core: _core.Recording,
        path: str,
        numbers: Sequence[int],
        library: Library | None,
        plan: Plan | None,
    ) -> None:
        self._core = core
        self._path = path
        self._numbers = numbers
        self._library = library
        self._plan = plan

    def time_ns(self, index: int) -> int:
        """When a message was recorded, in nanoseconds since 1970."""
        return self._core.time(self._numbers[index])

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> RecordedSample[T]: ...
    @overload
    def __getitem__(self, index: slice) -> RecordedSamples[T]: ...
    def __getitem__(self, index: int | slice) -> RecordedSample[T] | RecordedSamples[T]:
        if isinstance(index, slice):
            numbers = self._numbers[index]
            return RecordedSamples(self._core, self._path, numbers, self._library, self._plan)
        return self._sample(self._numbers[index])

    def __iter__(self) -> Iterator[RecordedSample[T]]:
        """Yields the samples; after the last, raises `InvalidArgument` if the file is damaged."""
        for number in self._numbers:
            yield self._sample(number)
        if damage := self._core.damage:
            raise InvalidArgument(f"file {self._path!r}: {damage}")

    def _sample(self, number: int) -> RecordedSample[T]:
        core = self._core
        time_ns = core.time(number)
        return recorded_sample(core.sample(number), self._library, self._plan, time_ns)

    def _repr_html_(self) -> str:
        """For notebooks: a table of the first samples, with thumbnails of images."""
        from tensorbus._topics.preview import preview_list

        start_ns = self.time_ns(0) if self._numbers else 0
        return preview_list(
            f"samples of {self._path}: {len(self)}",
            self,
            "time",
            lambda sample: f"{(sample.time_ns - start_ns) / 1e9:.3f} s",
        )

    def __repr__(self) -> str:
        return f"<tensorbus.RecordedSamples of {self._path!r} messages={len(self)}>"
