"""The handles of shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorbus import _core
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._tensors.library import REQUIRES_GRAD

_HANDLE = "handle"


@public
class Handle:
    """Identifies a share of a process; small, immutable and hashable.

    Any message may contain a handle. To send it by other means, convert it to one line of text
    (`str`), to bytes (`bytes`) or to a dictionary for JSON (`to_dict`), or pickle it. A handle does
    not keep the share open; the sharing process does, see `tensorbus.share`.

    Args:
        handle: a handle in any of these forms.

    Raises:
        InvalidArgument: the handle is truncated or was changed, or is not a handle.

    >>> import numpy as np
    >>> from tensorbus import share
    >>> with share(np.zeros((2, 3), "float32")) as shared:
    ...     line = str(shared.handle)
    ...     print(Handle(line) == shared.handle, Handle(line).to_dict()["tensors"][0]["shape"])
    True [2, 3]
    """

    __slots__ = ("_core",)
    _core: _core.Handle

    def __init__(self, handle: Handle | str | bytes | Mapping[str, Any]) -> None:
        object.__setattr__(self, "_core", _parse(handle))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Handle:
        """The handle from a dictionary that `to_dict` returned.

        Raises:
            InvalidArgument: the field `handle` is missing or is not the text of a handle, or
                another field contradicts it.
        """
        return cls(fields)

    def to_dict(self) -> dict[str, Any]:
        """The handle as a dictionary for JSON: its text in `handle`, and a description.

        `owner` is the id of the sharing participant, and `count` the number of tensors. `tensors`
        describes the first eight: `dtype`, `shape`, `strides` (in elements), `offset` (of the first
        element in its segment, in bytes), `device` and `requires_grad`.
        """
        return {
            _HANDLE: str(self),
            "owner": self.owner,
            "count": self._core.tensors,
            "tensors": [
                {
                    "dtype": dtype,
                    "shape": shape,
                    "strides": strides,
                    "offset": offset,
                    "device": "cpu",
                    "requires_grad": bool(flags & REQUIRES_GRAD),
                }
                for dtype, shape, strides, offset, flags in self._core.described
            ],
        }

    @property
    def owner(self) -> str:
        """The id of the sharing participant."""
        return self._core.owner

    def __str__(self) -> str:
        return self._core.text()

    def __bytes__(self) -> bytes:
        return self._core.bytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __reduce__(self) -> tuple[type[Handle], tuple[bytes]]:
        return Handle, (bytes(self),)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a handle cannot be changed: {name}")

    def __repr__(self) -> str:
        first = [f"{dtype}{tuple(shape)}" for dtype, shape, *_ in self._core.described]
        more = ", ..." if self._core.tensors > len(first) else ""
        return f"<tensorbus.Handle {', '.join(first)}{more} of {self.owner[:8]}>"


def _parse(handle: object) -> _core.Handle:
    if isinstance(handle, Handle):
        return handle._core
    if isinstance(handle, str):
        return _core.Handle.parse(handle.strip())
    if isinstance(handle, (bytes, bytearray, memoryview)):
        return _core.Handle.from_bytes(bytes(handle))
    if isinstance(handle, Mapping):
        return _from_fields(handle)
    raise InvalidArgument(
        f"handle={type(handle).__name__}: expected a Handle, its text, its bytes or its dict"
    )


def _from_fields(fields: Mapping[str, Any]) -> _core.Handle:
    text = fields.get(_HANDLE)
    if not isinstance(text, str):
        raise InvalidArgument(f"handle[{_HANDLE!r}]: expected the text of a handle, got {text!r}")
    handle = Handle(text)
    for name, value in handle.to_dict().items():
        if name in fields and fields[name] != value:
            raise InvalidArgument(
                f"handle[{name!r}]: {fields[name]!r}, but the text of the handle has {value!r}"
            )
    return handle._core
