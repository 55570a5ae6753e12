"""Torch tensors of the unusual kinds, for the tests of how they travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SPARSE: dict[str, Callable[[], Any]] = {
    "COO, not coalesced": lambda: torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2, 3], (4,)),
    "COO, coalesced": lambda: torch.sparse_coo_tensor([[1, 0, 1]], [1, 2, 3], (4,)).coalesce(),
    "COO, hybrid": lambda: torch.sparse_coo_tensor([[2]], torch.ones(1, 3), (4, 3)),
    "COO, empty": lambda: torch.sparse_coo_tensor(size=(2, 3)),
    "CSR": lambda: torch.eye(3).to_sparse_csr(),
    "CSR, a product, whose columns have no order": lambda: (
        (a := torch.tensor([[0.0, 1, 1], [1, 0, 0], [1, 1, 1]]).to_sparse_csr()) @ a
    ),
    "CSC": lambda: torch.eye(3).to_sparse_csc(),
    "BSR": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "BSC": lambda: torch.eye(4).to_sparse_bsc((2, 1)),
    "CSR, in batches": lambda: torch.eye(3).expand(2, 3, 3).to_sparse_csr(),
    "a leaf": lambda: torch.eye(3).to_sparse().requires_grad_(),
    "a parameter": lambda: torch.nn.Parameter(torch.eye(3).to_sparse_csr()),
}
NESTED: dict[str, Callable[[], Any]] = {
    "strided": lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 3)]),
    "strided, transposed": lambda: NESTED["strided"]().transpose(1, 2),
    "strided, nothing": lambda: torch.nested.nested_tensor([], dtype=torch.int64),
    "strided, a leaf": lambda: NESTED["strided"]().requires_grad_(),
    "strided, a parameter": lambda: torch.nn.Parameter(NESTED["strided"]()),
    "jagged": lambda: torch.nested.nested_tensor(
        [torch.ones(2, 3), torch.zeros(4, 3)], layout=torch.jagged
    ),
    "jagged, transposed": lambda: NESTED["jagged"]().transpose(1, 2),
    "jagged, a leaf": lambda: NESTED["jagged"]().detach().requires_grad_(),
    "jagged, with gaps": lambda: torch.nested.narrow(
        torch.arange(24).reshape(2, 4, 3), 1, 0, torch.tensor([2, 3]), layout=torch.jagged
    ),
}


class Pair(torch.Tensor):
    """Two tensors, by the protocol of torch.utils._python_dispatch."""

    @staticmethod
    def __new__(cls, a: Any, b: Any, name: Any = None) -> Any:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, a.shape, strides=a.stride(), dtype=a.dtype, requires_grad=a.requires_grad
        )

    def __init__(self, a: Any, b: Any, name: Any = None) -> None:
        self.a, self.b, self.name_of_it = a, b, name

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], {"name": self.name_of_it}

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Pair(inner["a"], inner["b"], context["name"])

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return Pair(args[0].a.detach(), args[0].b.detach(), args[0].name_of_it)
        raise NotImplementedError(function)
