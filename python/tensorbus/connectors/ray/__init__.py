"""Connects Ray (https://www.ray.io) with the bus: a tensor transport of Ray Direct Transport."""

from __future__ import annotations

from tensorbus._base.errors import Unsupported


def register() -> None:
    """Registers the tensor transports of the bus in this process.

    Ray has one type of tensors for each transport:

    - `"TENSORBUS"`: the PyTorch tensors of an object, if PyTorch is installed.
    - `"TENSORBUS_NUMPY"`: its NumPy arrays.

    Call it before the classes of actors are defined. Ray registers the transports in the actors
    that this process creates, but not again when it restarts one (`max_restarts`): an actor whose
    methods return tensors, and whose class is defined in the driver's script, calls it in its
    `__init__`, too. Further calls have no effect.

    Raises:
        Unsupported: Ray is not installed, or not version 2.60.

    >>> import ray, torch
    >>> register()
    >>> @ray.remote
    ... class Camera:
    ...     @ray.method(tensor_transport="TENSORBUS")
    ...     def frame(self):
    ...         return torch.zeros(1080, 1920, 3)
    """
    try:
        from tensorbus.connectors.ray import _transport  # noqa: F401  (its import registers them)
    except ImportError as error:
        raise Unsupported(
            f"Ray 2.60 is required: pip install 'tensorbus[ray]' ({error})"
        ) from error
