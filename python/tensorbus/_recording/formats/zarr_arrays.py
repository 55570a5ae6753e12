"""Zarr: an array for each tensor of a topic, with a row for each message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tensorbus._recording.formats.topic_files import Message, file_name
from tensorbus._recording.left_out import TopicRefused
from tensorbus._recording.message_parts import unused

# A message is a chunk, and so many bytes of chunks are a file: one shard.
_SHARD_BYTES = 8 << 20
_MAX_ROWS = 1024  # of a shard
_NUMBERS = ("time_ns", "timestamp_ns", "sequence")  # of each message's header, as arrays


class ZarrArrays:
    """The group `data.zarr` (format 3), and `messages.jsonl` beside it.

    All messages have tensors of the same names, shapes and dtypes: row `n` of each array belongs to
    message `n`.
    """

    def __init__(self, folder: Path) -> None:
        import zarr

        self._group: Any = zarr.create_group(str(folder / "data.zarr"), zarr_format=3)
        self._rows: dict[str, _Rows] | None = None  # by tensor; None before the first message
        self._headers: dict[str, list[int]] = {name: [] for name in _NUMBERS}
        self._lines = (folder / "messages.jsonl").open("wb")

    def add(self, message: Message) -> int:
        tensors = message.parts.tensors
        is_first = self._rows is None
        if self._rows is None:
            names = _array_names(tensors)
            self._rows = {
                name: _Rows(self._group, names[name], tensor) for name, tensor in tensors.items()
            }
        if tensors.keys() != self._rows.keys():
            raise TopicRefused(
                f"message {message.name} has the tensors {sorted(tensors)}, the first one "
                f"{sorted(self._rows)}: {_ONE_SHAPE}. {_REMEDY}"
            )
        for name, tensor in tensors.items():
            self._rows[name].check(message.name, name, tensor)
        for name, tensor in tensors.items():
            self._rows[name].add(tensor)
        for name, numbers in self._headers.items():
            numbers.append(message.header[name])
        self._lines.write(message.line({name: row.path for name, row in self._rows.items()}))
        return len(self._rows) if is_first else 0

    def close(self) -> None:
        try:
            for rows in (self._rows or {}).values():
                rows.flush()
            for name, numbers in self._headers.items():
                _write_numbers(self._group, name, numbers)
        finally:
            self._lines.close()


_ONE_SHAPE = "an array of Zarr has one shape"
_REMEDY = "Export this topic with --format npz or webdataset"


def _array_names(tensors: Iterable[str]) -> dict[str, str]:
    """A name in the group for each tensor; Zarr reserves some names.

    >>> _array_names(["image", "time_ns", "__x"])
    {'image': 'image', 'time_ns': 'time_ns_2', '__x': 'tensor__x'}
    """
    found: dict[str, str] = {}
    for name in tensors:
        wanted = file_name(name)
        if wanted.startswith("__") or wanted == "zarr.json":
            wanted = f"tensor{wanted}"
        found[name] = unused(wanted, [*_NUMBERS, *found.values()])
    return found


class _Rows:
    """One array. Rows are kept until they fill a shard."""

    def __init__(self, group: Any, name: str, first: Any) -> None:
        if first.dtype.fields is not None:
            raise TopicRefused(f"{name!r} has records, for which Zarr has no type. {_REMEDY}")
        self._shape, self._dtype = first.shape, first.dtype
        self._size = max(1, min(_MAX_ROWS, _SHARD_BYTES // max(first.nbytes, 1)))
        row = (1, *(max(size, 1) for size in first.shape))
        try:
            self._array = group.create_array(
                name,
                shape=(0, *first.shape),
                dtype=first.dtype,
                chunks=row,
                shards=(self._size, *row[1:]) if self._size > 1 else None,
            )
        except (TypeError, ValueError) as error:
            raise TopicRefused(f"{name!r} of {first.dtype} is no array of Zarr: {error}") from error
        self.path = f"data.zarr/{name}"
        self._kept: list[Any] = []

    def check(self, message: str, name: str, tensor: Any) -> None:
        """Raises TopicRefused for a tensor that is no row of this array."""
        if (tensor.shape, tensor.dtype) != (self._shape, self._dtype):
            raise TopicRefused(
                f"message {message} has a tensor {name!r} of {tensor.dtype} {tensor.shape}, the "
                f"first one of {self._dtype} {self._shape}: {_ONE_SHAPE}. {_REMEDY}"
            )

    def add(self, tensor: Any) -> None:
        self._kept.append(tensor)
        if len(self._kept) == self._size:
            self.flush()

    def flush(self) -> None:
        import numpy as np

        if self._kept:
            begin = self._array.shape[0]
            self._array.resize((begin + len(self._kept), *self._shape))
            self._array[begin:] = np.stack(self._kept)
            self._kept.clear()


def _write_numbers(group: Any, name: str, numbers: Sequence[int]) -> None:
    import numpy as np

    values = np.asarray(numbers, np.int64)
    group.create_array(name, data=values, chunks=(max(len(values), 1),))
