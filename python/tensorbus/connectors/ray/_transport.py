"""The tensor transports. Ray calls them in drivers, sources and receivers, on several threads.

The import of this module registers them. So a receiver has them as soon as it unpickles the first
`SharedObject`, also after a restart.
"""

from __future__ import annotations

import io
import logging
import pickle
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.ray_constants import RDT_FETCH_FAIL_TIMEOUT_SECONDS
from ray.exceptions import RayDirectTransportError
from ray.experimental import register_tensor_transport
from ray.experimental.rdt.tensor_transport_manager import (
    CommunicatorMetadata,
    FetchRequest,
    TensorTransportManager,
    TensorTransportMetadata,
)
from ray.experimental.rdt.util import transport_manager_info

from tensorbus._base.errors import Closed, Error, Timeout
from tensorbus._sharing.share import Shared, attach, share
from tensorbus.connectors.ray._place import Place

_log = logging.getLogger("ray.tensorbus")


@dataclass
class SharedObject(TensorTransportMetadata):
    """The tensors of an object, as their receivers find them. The object may have none."""

    handle: bytes = b""
    place: Place | None = None
    source: bytes | None = None  # the source actor's handle, pickled; None: a driver or a task


@dataclass
class Fetch(FetchRequest):
    """A fetch. `tensors` are the target buffers, or empty."""

    shared: SharedObject


class Objects:
    """The shares of the objects that this process has made, until Ray frees them."""

    def __init__(self) -> None:
        self._shares: dict[str, Shared] = {}
        self._worker = ""

    def keep(self, obj_id: str, shared: Shared) -> None:
        """Keeps the tensors of an object, and releases those of an earlier connection to Ray.

        After `ray.shutdown()` Ray frees no objects.
        """
        worker = ray.get_runtime_context().get_worker_id()
        if worker != self._worker:
            self._shares.clear()
            self._worker = worker
        self._shares[obj_id] = shared

    def find(self, obj_id: str) -> Shared | None:
        return self._shares.get(obj_id)

    def release(self, obj_id: str) -> None:
        shared = self._shares.pop(obj_id, None)
        if shared is not None:
            shared.close()


objects = Objects()


class Transport(TensorTransportManager):
    """One-sided: receivers attach.

    In a process that has used both transports, Ray hands tensors of both libraries to either.
    """

    name: str

    def tensor_transport_backend(self) -> str:
        return self.name

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        """A transfer ends by itself, at the latest with Ray's time limit: no actor is killed."""
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> SharedObject:
        """In the source: shares the tensors."""
        meta = [(tensor.shape, tensor.dtype) for tensor in rdt_object]
        if not rdt_object:
            return SharedObject(meta)
        shared = objects.find(obj_id)  # a repeated task
        if shared is None:
            shared = share(rdt_object)
            objects.keep(obj_id, shared)
        return SharedObject(
            meta,
            _device_of(rdt_object[0]),
            bytes(shared.handle),
            Place.of_this_process(),
            _this_actor(),
        )

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """In the owner of the object, before a transfer to an actor."""
        if dst_actor is not None and not dst_actor._ray_enable_tensor_transport:
            # No error: Ray may call this in a thread that must not raise.
            _log.error(
                "%r receives tensors of %s, and its class lacks"
                " @ray.remote(enable_tensor_transport=True): its call may fail after %g seconds",
                dst_actor,
                self.name,
                RDT_FETCH_FAIL_TIMEOUT_SECONDS,
            )
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: SharedObject,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        """In the receiver: attaches to the tensors."""
        request = self.fetch_multiple_tensors(
            obj_id, tensor_transport_metadata, communicator_metadata, target_buffers
        )
        return self.wait_fetch_complete(request)

    def fetch_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: SharedObject,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> Fetch:
        """Does nothing yet: only the wait has the time limit of `ray.get`."""
        return Fetch(obj_id, target_buffers or [], tensor_transport_metadata)

    def wait_fetch_complete(self, fetch_request: Fetch, timeout: float = -1) -> list[Any]:
        """Attaches to the tensors, or gets them through Ray's object store.

        Raises:
            RayError: the source has died, or has freed the object.
            TimeoutError: the source did not reply in time.
        """
        if not fetch_request.shared.tensor_meta:
            return []
        limit = RDT_FETCH_FAIL_TIMEOUT_SECONDS if timeout < 0 else timeout
        received = self._received(fetch_request.obj_id, fetch_request.shared, limit)
        buffers: list[Any] = fetch_request.tensors
        if not buffers:
            return received
        for buffer, tensor in zip(buffers, received, strict=True):
            _copy(buffer, tensor)
        return buffers

    def _received(self, obj_id: str, shared: SharedObject, limit: float) -> list[Any]:
        deadline = time.monotonic() + limit
        assert shared.place is not None
        here = shared.place.is_here()
        try:
            tensors = attach(
                shared.handle,
                timeout=limit,
                domain=shared.place.domain if here else None,  # else through bridges
            )
            assert isinstance(tensors, list)
            return tensors
        except Timeout:  # Ray may have given up before: its own error has no reason
            _log.warning("%s: its source did not reply in %g seconds", obj_id, limit)
            raise
        except Closed as error:
            if here:
                lost = f"the tensors of {obj_id} are lost: {error}"
                raise RayDirectTransportError(lost) from error
            why: Error = error
        except Error as error:
            why = error
        if shared.source is None:
            raise RayDirectTransportError(
                f"{obj_id} was put by a driver or task of another machine, and can be received only"
                f" through bridges ({why})"
            ) from why
        return _from_object_store(obj_id, shared.source, deadline - time.monotonic())

    def send_multiple_tensors(self, *_: Any) -> None:
        raise NotImplementedError("receivers attach")

    def garbage_collect(
        self, obj_id: str, tensor_transport_meta: SharedObject, tensors: list[Any]
    ) -> None:
        """In the source: ends the share. Received tensors stay valid."""
        objects.release(obj_id)

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Nothing to do, see `can_abort_transport`."""


class TorchTransport(Transport):
    """For objects with PyTorch tensors."""

    name = "TENSORBUS"


class NumpyTransport(Transport):
    """For objects with NumPy arrays."""

    name = "TENSORBUS_NUMPY"


def _device_of(tensor: Any) -> str:
    """The type of the device of a tensor, as PyTorch names it."""
    return str(getattr(tensor.device, "type", "cpu")) if hasattr(tensor, "device") else "cpu"


def _copy(buffer: Any, tensor: Any) -> None:
    """Copies a received tensor into a target buffer."""
    if hasattr(buffer, "copy_"):
        buffer.detach().copy_(tensor)
    else:
        buffer[...] = tensor


def _this_actor() -> bytes | None:
    """The handle of the actor that this process is, pickled; it does not keep the actor alive."""
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return None
    return pickle.dumps(context.current_actor)


def _from_object_store(obj_id: str, source: bytes, timeout: float) -> list[Any]:
    # The group of Ray's own aborts: the other one may wait for this process's reply.
    call = pickle.loads(source).__ray_call__.options(concurrency_group="_ray_system_error")
    by_torch, saved = ray.get(call.remote(_saved, obj_id), timeout=max(timeout, 0))
    if by_torch:
        import torch

        loaded = torch.load(io.BytesIO(saved), weights_only=False)
    else:
        loaded = pickle.loads(saved)
    assert isinstance(loaded, list)
    return loaded


def _saved(_: object, obj_id: str) -> tuple[bool, bytes]:
    """In the source actor: an object's tensors, and whether PyTorch has saved them.

    Ray's pickles would lose the byte order of arrays, and fail with some dtypes, such as uint16.
    """
    shared = objects.find(obj_id)
    if shared is None:
        raise RayDirectTransportError(f"{obj_id} was freed")
    tensors = attach(shared.handle)
    assert isinstance(tensors, list)
    if all(type(tensor).__module__ == "numpy" for tensor in tensors):
        return False, pickle.dumps(tensors, protocol=5)
    import torch

    file = io.BytesIO()
    torch.save(tensors, file, pickle_protocol=5)
    return True, file.getvalue()


def _register(transport: type[Transport], devices: list[str], data_type: type) -> None:
    if transport.name not in transport_manager_info:
        register_tensor_transport(transport.name, devices, transport, data_type)


with suppress(ImportError):
    import torch

    _register(TorchTransport, ["cpu", "cuda"], torch.Tensor)
with suppress(ImportError):
    import numpy as np

    _register(NumpyTransport, ["cpu", "cuda"], np.ndarray)
