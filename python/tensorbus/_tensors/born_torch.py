"""`tensorbus.allocate` for PyTorch's CPU tensors.

PyTorch's allocator of main memory cannot be replaced from Python. Instead, a `TorchFunctionMode`
intercepts functions that make a new tensor, and passes them memory of the bus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from tensorbus import _core
from tensorbus._base.errors import Forked, OutOfMemory
from tensorbus._tensors import torch_tensors

# Fills a new tensor; called with it and with the arguments of the function.
Fill = Callable[[torch.Tensor, Any, dict[str, Any]], Any]


def _with(value: float) -> Fill:
    return lambda tensor, args, kwargs: tensor.fill_(value)


def _full(tensor: torch.Tensor, args: Any, kwargs: dict[str, Any]) -> None:
    tensor.fill_(args[1] if len(args) > 1 else kwargs["fill_value"])


def _random(method: str) -> Fill:
    return lambda tensor, args, kwargs: getattr(tensor, method)(generator=kwargs.get("generator"))


_FILLS: dict[Any, Fill] = {
    torch.empty: lambda tensor, args, kwargs: None,
    torch.zeros: _with(0),
    torch.ones: _with(1),
    torch.full: _full,
    torch.rand: _random("uniform_"),
    torch.randn: _random("normal_"),
    torch.empty_like: lambda tensor, args, kwargs: None,
    torch.zeros_like: _with(0),
    torch.ones_like: _with(1),
    torch.full_like: _full,
    torch.rand_like: _random("uniform_"),
    torch.randn_like: _random("normal_"),
}
_JOINS = (torch.stack, torch.cat, torch.concat, torch.concatenate)
# Arguments that make the new tensor other than plain: PyTorch makes it.
_SPECIAL = ("out", "pin_memory", "names")


class Born(TorchFunctionMode):
    """Context in which new tensors of at least `min_bytes` lie in memory of the bus."""

    def __init__(self, home: _core.Participant, min_bytes: int) -> None:
        super().__init__()
        self._home = home
        self._min_bytes = min_bytes

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        # First: torch.compile traces this method, and must not trace the rest.
        if _is_compiling() or not (func in _FILLS or func in _JOINS):
            return func(*args, **kwargs)
        made = None
        plain = all(kwargs.get(name) is None or kwargs[name] is False for name in _SPECIAL)
        if plain and _runs_here(types):
            if func in _FILLS:
                made = self._filled(func, args, kwargs)
            else:
                made = self._joined(func, args, kwargs)
        return func(*args, **kwargs) if made is None else made

    def _filled(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor | None:
        like = args[0] if args and isinstance(args[0], torch.Tensor) else kwargs.get("input")
        if like is not None and type(like) is not torch.Tensor:
            return None
        device = kwargs.get("device", getattr(like, "device", None))
        if torch.device(device or torch.get_default_device()).type != "cpu":
            return None
        plain = {name: value for name, value in kwargs.items() if name != "generator"}
        tensor = self._empty(func(*args, **{**plain, "device": "meta"}))
        if tensor is None:
            return None
        with torch.no_grad():
            _FILLS[func](tensor, args, kwargs)
        return tensor.requires_grad_(bool(kwargs.get("requires_grad")))

    def _joined(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor | None:
        tensors = args[0] if args else kwargs.get("tensors")
        if not isinstance(tensors, list | tuple) or not all(map(_is_plain, tensors)):
            return None
        rest = {name: value for name, value in kwargs.items() if name not in ("tensors", "out")}
        try:
            shape = func([each.to("meta") for each in tensors], *args[1:], **rest)
        except (RuntimeError, TypeError, IndexError, AssertionError):
            return None  # PyTorch's own error follows
        out = self._empty(shape)
        return None if out is None else func(tensors, *args[1:], **rest, out=out)

    def _empty(self, meta: torch.Tensor) -> torch.Tensor | None:
        """A tensor like this meta tensor, on the bus; None: PyTorch makes it in ordinary memory."""
        if meta.layout != torch.strided or not meta.is_contiguous():
            return None
        if meta.nbytes < self._min_bytes:
            return None
        try:
            name = torch_tensors.dtype_name(meta.dtype)
            made = _core.born(name, list(meta.shape), self._home)
        except (Forked, OutOfMemory):
            return None
        tensor: torch.Tensor = torch_tensors.from_memory(made)
        return tensor


def _runs_here(types: Iterable[type]) -> bool:
    """Whether PyTorch itself runs the function, on ordinary tensors.

    Otherwise a transform (torch.func), a tracer, forward-mode gradients, a subclass of tensors or
    another mode (FakeTensorMode) must get the function as the program has called it.
    """
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return not (
        any(kind not in _ORDINARY for kind in types)
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch.autograd.forward_ad._current_level >= 0
        or torch._C._is_tracing()
        or any(type(mode) not in _HARMLESS for mode in modes)
    )


_is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)  # PyTorch 2.3
_ORDINARY = (torch.Tensor, torch.nn.Parameter)
_HARMLESS = (Born, DeviceContext)


def _is_plain(tensor: Any) -> bool:
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.requires_grad and torch.is_grad_enabled())
    )
