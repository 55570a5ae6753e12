"""A recording as a dataset of PyTorch. Imported on demand, because it imports PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorbus import _core
from tensorbus._base.arguments import whole_number
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._codec.typed import plan_or_none
from tensorbus._recording.recorded_samples import RecordedSamples
from tensorbus._tensors.library import Library

if TYPE_CHECKING:
    from torch.utils.data import Dataset
else:
    try:
        from torch.utils.data import Dataset
    except ImportError:  # without PyTorch the dataset is a plain sequence

        class Dataset:
            def __class_getitem__(cls, _):
                return cls


class Place(NamedTuple):
    """Everything that another process needs to find the same samples."""

    path: str
    about: dict[str, str]  # `Recording.about`, to detect that the file was replaced
    topic: str
    message_type: Any
    start_ns: int
    end_ns: int
    messages: int
    library: Library | None


@public
class RecordingDataset(Dataset[Any]):
    """The messages of a topic, or windows of them. Made by `Recording.dataset`.

    A pickle of it contains the file's path and the selection, but no tensors. Each worker of a
    `DataLoader` maps the file itself, whether the worker was forked or spawned.
    """

    def __init__(
        self,
        place: Place,
        window: int | None,
        step: int,
        transform: Callable[[Any], Any] | None,
    ) -> None:
        self._place = place
        self._window = None if window is None else whole_number("window", window, low=1)
        self._step = whole_number("step", step, low=1)
        self._transform = transform
        self._samples: RecordedSamples[Any] | None = None

    def __len__(self) -> int:
        last = self._place.messages - (self._window or 1)
        return 0 if last < 0 else last // self._step + 1

    def __getitem__(self, index: int) -> Any:
        """The data of a message, or a list of the data in a window, after `transform`.

        Raises:
            IndexError: there is no item with this index.
            InvalidArgument: the file has been replaced since the dataset was made.
        """
        first = range(len(self))[index] * self._step
        samples = self._opened()
        if self._window is None:
            sample = samples[first]
            return sample.data if self._transform is None else self._transform(sample)
        window = [samples[first + place] for place in range(self._window)]
        if self._transform is not None:
            return self._transform(window)
        return [sample.data for sample in window]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_samples": None}

    def _opened(self) -> RecordedSamples[Any]:
        if self._samples is None:
            self._samples = _select(self._place)
        return self._samples

    def __repr__(self) -> str:
        place = self._place
        return f"<tensorbus.RecordingDataset {place.topic!r} of {place.path!r} items={len(self)}>"


def _select(place: Place) -> RecordedSamples[Any]:
    core = _core.Recording(place.path)
    numbers = memoryview(core.select([place.topic], place.start_ns, place.end_ns)).cast("I")
    if core.about != place.about or len(numbers) < place.messages:
        raise InvalidArgument(f"file {place.path!r} has been replaced since the dataset was made")
    plan = plan_or_none(place.message_type)
    return RecordedSamples(core, place.path, numbers, place.library, plan)
