"""Selected samples of a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, overload

from tensorbus import _core
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.generics import T
from tensorbus._base.public import public
from tensorbus._tensors.library import Library
from tensorbus._topics.sample import Sample, sample_of

if TYPE_CHECKING:
    from tensorbus._codec.protocols import Plan


@public
class RecordedSamples(Sequence[Sample[T]], Generic[T]):
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
    def __getitem__(self, index: int) -> Sample[T]: ...
    @overload
    def __getitem__(self, index: slice) -> RecordedSamples[T]: ...
    def __getitem__(self, index: int | slice) -> Sample[T] | RecordedSamples[T]:
        if isinstance(index, slice):
            numbers = self._numbers[index]
            return RecordedSamples(self._core, self._path, numbers, self._library, self._plan)
        return sample_of(self._core.sample(self._numbers[index]), self._library, self._plan)

    def __iter__(self) -> Iterator[Sample[T]]:
        """Yields the samples; after the last, raises `InvalidArgument` if the file is damaged."""
        for number in self._numbers:
            yield sample_of(self._core.sample(number), self._library, self._plan)
        if damage := self._core.damage:
            raise InvalidArgument(f"file {self._path!r}: {damage}")

    def __repr__(self) -> str:
        return f"<tensorbus.RecordedSamples of {self._path!r} messages={len(self)}>"
