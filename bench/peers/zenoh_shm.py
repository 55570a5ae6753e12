"""Zenoh with shared memory: its Python API lends memory, but has no view of what it received.

The bytes get out of a received sample by `to_bytes`, which copies them.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peers.peer import Peer

POOL_BYTES = 512 << 20


class Zenoh(Peer):
    name = "Zenoh, shared memory"
    module = "zenoh"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"

    def open_session(self, **config: Any) -> Any:
        import zenoh

        chosen = zenoh.Config()
        chosen.insert_json5("scouting/multicast/enabled", "false")
        chosen.insert_json5("transport/shared_memory/enabled", "true")
        for key, value in config.items():
            chosen.insert_json5(f"{key}/endpoints", json.dumps([value]))
        self.session = self.stack.enter_context(zenoh.open(chosen))
        return zenoh

    def open_sender(self) -> None:
        zenoh = self.open_session(connect=self.endpoint)
        self.policy = zenoh.shm.BlockOn(zenoh.shm.GarbageCollect())
        self.provider = zenoh.shm.ShmProvider.default_backend(POOL_BYTES)
        self.publisher = self.session.declare_publisher(
            "tensor", congestion_control=zenoh.CongestionControl.BLOCK
        )
        while not self.publisher.matching_status.matching:
            time.sleep(0.001)

    def open_receiver(self) -> None:
        self.open_session(listen=self.endpoint)
        self.subscriber = self.session.declare_subscriber("tensor")

    def loan(self, source: torch.Tensor) -> Any:
        return self.provider.alloc(source.nbytes, policy=self.policy)

    def fill(self, message: Any, number: bytes) -> None:
        message[: len(number)] = number

    def send(self, message: Any) -> None:
        self.publisher.put(message)

    def receive(self) -> torch.Tensor | None:
        payload = self.subscriber.recv().payload
        return torch.from_numpy(np.frombuffer(payload.to_bytes(), dtype=np.uint8))
