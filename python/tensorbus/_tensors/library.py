"""The libraries whose tensors can be sent. A tensor's library is found without importing it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import index
from typing import Any, Literal, get_args

from tensorbus._base.errors import InvalidArgument
from tensorbus._core import TensorFlags

Library = Literal["torch", "numpy", "jax", "dlpack"]
LIBRARIES: tuple[str, ...] = get_args(Library)

FROM_TORCH = TensorFlags.FROM_TORCH.value
FROM_NUMPY = TensorFlags.FROM_NUMPY.value
REQUIRES_GRAD = TensorFlags.REQUIRES_GRAD.value
PARAMETER = TensorFlags.PARAMETER.value
CONJUGATE = TensorFlags.CONJUGATE.value
NEGATIVE = TensorFlags.NEGATIVE.value

# The classes of ordinary tensors that are registered with the core so far.
TENSOR_CLASSES: set[type] = set()


def library_of(value: object) -> Literal["torch", "numpy"] | None:
    """The library of a tensor; None for any other value."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    return None


def sizes_of(shape: Any) -> list[int]:
    """The sizes in a shape, which may be one size.

    >>> sizes_of(5), sizes_of((2, 3))
    ([5], [2, 3])
    """
    try:
        sizes = [index(size) for size in shape] if isinstance(shape, Iterable) else [index(shape)]
    except TypeError:
        sizes = [-1]
    if sizes and (min(sizes) < 0 or max(sizes) >= 2**63):
        raise InvalidArgument(f"shape={shape!r}: expected one size or several, from 0 to 2**63 - 1")
    return sizes


def library_or_none(library: Library | None) -> Library | None:
    """Checks a `library` argument."""
    if library is not None and library not in LIBRARIES:
        raise InvalidArgument(f"library={library!r}: expected one of {LIBRARIES}, or None")
    return library
