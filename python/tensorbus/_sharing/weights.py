"""One copy of a model's weights for any number of processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tensorbus._base.arguments import Access
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._codec.handle import Handle
from tensorbus._sharing.share import attach

if TYPE_CHECKING:
    import torch


@public
def load_state_dict(
    model: torch.nn.Module,
    handle: Handle | str | bytes | Mapping[str, Any],
    *,
    strict: bool = True,
    access: Access = "copy-on-write",
    timeout: float | None = None,
    domain: str | None = None,
) -> Any:
    """Loads shared weights into a model without a copy.

    Tensors over the shared memory replace the model's parameters and buffers, so that any number of
    processes use one copy of the weights. Build the model on the `meta` device, so that the
    replaced weights use no memory. The parameters require no gradients, unless `access` is
    "private" or "shared": an optimizer's step would write to all of them.

    Args:
        model: a `torch.nn.Module`.
        handle: the handle of `tensorbus.share(other.state_dict())`.
        strict: the names must be the same as those of the model, as in `Module.load_state_dict`.
        access: "copy-on-write": batch normalization may update its buffers in this process alone;
            "private": training in this process alone, which copies each page at its first write;
            "shared": all processes train the same weights, if the share has `shared=True`; "read":
            a write ends the process.
        timeout: see `tensorbus.attach`.
        domain: see `tensorbus.participant`.

    Returns:
        The result of `torch.nn.Module.load_state_dict`: missing and unexpected names.

    Raises:
        InvalidArgument: the handle is not the handle of a dictionary of tensors.
        RuntimeError: names or shapes do not match; the model is unchanged.
        Closed, Timeout, AccessDenied, OutOfMemory: see `tensorbus.attach`.

    >>> import torch
    >>> from tensorbus import share
    >>> trained = torch.nn.Linear(2, 3)
    >>> with share(trained.state_dict()) as shared:
    ...     with torch.device("meta"):
    ...         model = torch.nn.Linear(2, 3)
    ...     load_state_dict(model, shared.handle)
    <All keys matched successfully>
    >>> bool((model.weight == trained.weight).all())
    True
    """
    state = attach(handle, access=access, library="torch", timeout=timeout, domain=domain)
    if not isinstance(state, Mapping):
        raise InvalidArgument(
            f"handle: expected the tensors of a state_dict(), got {type(state).__name__}"
        )
    before = [*_tensors_of(model)]
    try:
        result = model.load_state_dict(state, strict=strict, assign=True)
    except BaseException:  # PyTorch may have assigned some tensors
        for module, name, tensor in before:
            setattr(module, name, tensor)
        raise
    if access in ("copy-on-write", "read"):
        for name, parameter in model.named_parameters():
            if name in state:
                parameter.requires_grad_(False)
    return result


def _tensors_of(model: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, str, torch.Tensor]]:
    """Parameters and buffers, each with its module and its name in that module."""
    for module in model.modules():
        # Not named_parameters(), which a model may override.
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    yield module, name, tensor
