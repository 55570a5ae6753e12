"""Plain arrays and torch tensors of every dtype and layout, for the tests of how they travel."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

NUMPY_DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
TORCH_DTYPES = [*NUMPY_DTYPES, "bfloat16"]
TORCH_LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "permuted": lambda t: t.permute(2, 0, 1),
    "transposed": lambda t: t[0].t(),
    "zero-dimensional": lambda t: t[0, 0, 0].clone(),
    "empty": lambda t: t[:0],
    "channels last": lambda t: t.reshape(2, 2, 3, -1).permute(0, 2, 3, 1),
    "a corner": lambda t: t[1:3, 2:4, 3:5],
    "every second": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(5, -1, -1),
    "unfolded": lambda t: t[0, 0].unfold(0, 3, 1),
}


def arrays_of(dtype: str) -> np.ndarray[Any, Any]:
    bits = np.random.default_rng(1).integers(0, 256, 4 * 6 * 8 * 16, dtype=np.uint8)
    if dtype == "bool":
        bits %= 2
    return bits.view(dtype)[: 4 * 6 * 8].reshape(4, 6, 8)


def assert_same_tensor(back: Any, tensor: Any, torch: ModuleType) -> None:
    assert type(back) is type(tensor)
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert back.requires_grad == tensor.requires_grad
    assert back.device.type == "cpu"
    bits = [t.detach().resolve_conj().resolve_neg().contiguous().flatten() for t in (back, tensor)]
    assert torch.equal(*(t.view(torch.uint8) for t in bits))


def tensor_of(dtype: str, torch: ModuleType) -> Any:
    """Made of bytes, since PyTorch cannot compute with all of its dtypes."""
    array = arrays_of("bool" if dtype == "bool" else "uint8")
    elements = torch.from_numpy(array.reshape(-1)).view(getattr(torch, dtype))
    return elements.reshape(2, 6, -1)
