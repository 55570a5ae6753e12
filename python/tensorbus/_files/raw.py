"""Files that hold one tensor and nothing that says which."""

from __future__ import annotations

import os
from math import prod
from typing import Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._files.contents import (
    Contents,
    Library,
    Place,
    elements_of,
    library_for,
    refuse,
    sizes_in,
)
from tensorbus._tensors.library import sizes_of


def contents_of(
    fd: int, path: str, shape: Any, dtype: Any, offset: int, as_: Library | None
) -> Contents:
    elements = elements_of(needed("dtype", dtype), as_)
    there = os.fstat(fd).st_size - offset
    if there < 0:
        raise refuse(path, f"offset={offset}, but it has {there + offset} bytes")
    return _contents(Place(elements, sizes_in(shape, elements, there, path)), offset, as_)


def planned(shape: Any, dtype: Any, offset: int, as_: Library | None) -> Contents:
    """What a file is to hold that is yet to be made."""
    elements = elements_of(needed("dtype", dtype), as_)
    return _contents(Place(elements, sizes_of(needed("shape", shape))), offset, as_)


def needed(what: str, value: Any) -> Any:
    if value is None:
        raise InvalidArgument(f"{what}: nothing in the file says it, so you have to")
    return value


def _contents(place: Place, offset: int, as_: Library | None) -> Contents:
    count = prod(place.shape) * place.elements.bytes
    return Contents(offset, count, {"": place}, library_for(place.elements, as_))
