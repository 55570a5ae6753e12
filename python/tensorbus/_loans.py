"""Loans: tensors in shared memory, to fill and publish."""

from __future__ import annotations

import sys
from typing import Any

from tensorbus import _core
from tensorbus._errors import InvalidArgument, Unsupported
from tensorbus._tensors import library_of, sizes_of


def loan_of(publisher: _core.Publisher, shape: Any, dtype: Any, like: Any) -> Any:
    """See `tensorbus.Publisher.loan`."""
    if like is not None and library_of(like) is None:
        raise InvalidArgument(f"like={type(like).__name__}: a tensor is needed")
    if dtype is None and like is None:
        raise InvalidArgument("a loan needs a dtype, or a tensor to be like")
    sizes = like.shape if shape is None and like is not None else shape
    if sizes is None:
        raise InvalidArgument("a loan needs a shape, or a tensor to be like")
    wanted = like.dtype if dtype is None else dtype
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(wanted, torch.dtype):
        from tensorbus import _torch

        return _torch.from_memory(publisher.loan(_torch.dtype_name(wanted), sizes_of(sizes)))
    return _array(publisher, sizes_of(sizes), wanted)


def _array(publisher: _core.Publisher, sizes: list[int], wanted: Any) -> Any:
    from tensorbus import _numpy

    if isinstance(wanted, str) and wanted == "bfloat16":
        raise Unsupported("NumPy has no bfloat16: pass dtype=torch.bfloat16")
    np = _numpy.learn()
    try:
        dtype = np.dtype(wanted)
    except (TypeError, ValueError):
        raise Unsupported(f"dtype={wanted!r}: expected a dtype of NumPy or PyTorch") from None
    if dtype.hasobject:
        raise Unsupported(f"dtype={wanted!r}: its elements are Python objects, which cannot travel")
    if _numpy.has_name(dtype):
        return _numpy.from_memory(publisher.loan(dtype.name, sizes))
    return _numpy.over_bytes(publisher.loan("uint8", [*sizes, dtype.itemsize]), dtype)
