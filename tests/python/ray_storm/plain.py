"""A transport whose objects carry their tensors: what it cannot do, Ray cannot do."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.experimental import register_tensor_transport
from ray.experimental.rdt.tensor_transport_manager import (
    CommunicatorMetadata,
    FetchRequest,
    TensorTransportManager,
    TensorTransportMetadata,
)
from ray.experimental.rdt.util import transport_manager_info

NAME = "PLAIN"


@dataclass
class PlainObject(TensorTransportMetadata):
    saved: bytes = b""


@dataclass
class PlainFetch(FetchRequest):
    saved: bytes = b""


class PlainTransport(TensorTransportManager):
    def tensor_transport_backend(self) -> str:
        return NAME

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> PlainObject:
        meta = [(tensor.shape, tensor.dtype) for tensor in rdt_object]
        return PlainObject(meta, "cpu", pickle.dumps(rdt_object))

    def get_communicator_metadata(self, *_: Any) -> CommunicatorMetadata:
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self, obj_id: str, tensor_transport_metadata: PlainObject, *_: Any
    ) -> list[Any]:
        return list(pickle.loads(tensor_transport_metadata.saved))

    def fetch_multiple_tensors(
        self, obj_id: str, tensor_transport_metadata: PlainObject, *_: Any
    ) -> PlainFetch:
        return PlainFetch(obj_id, [], tensor_transport_metadata.saved)

    def wait_fetch_complete(self, fetch_request: PlainFetch, timeout: float = -1) -> list[Any]:
        return list(pickle.loads(fetch_request.saved))

    def send_multiple_tensors(self, *_: Any) -> None:
        raise NotImplementedError

    def garbage_collect(self, *_: Any) -> None:
        pass

    def abort_transport(self, *_: Any) -> None:
        pass


def register() -> None:
    if NAME not in transport_manager_info:
        register_tensor_transport(NAME, ["cpu"], PlainTransport, np.ndarray)
