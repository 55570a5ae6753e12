"""A pickle with its length before it, over a TCP connection of the loopback device."""

from __future__ import annotations

import pickle
import socket
from pathlib import Path
from typing import Any

import torch

from peers.peer import PATIENCE, Peer


class PickleOverTcp(Peer):
    name = "pickle over TCP"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.listening = socket.create_server(("127.0.0.1", 0))

    def open_sender(self) -> None:
        self.link = socket.create_connection(self.listening.getsockname(), PATIENCE)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def open_receiver(self) -> None:
        self.listening.settimeout(PATIENCE)
        self.link, _ = self.listening.accept()
        self.file = self.link.makefile("rb")

    def send(self, message: Any) -> None:
        data = pickle.dumps(message, protocol=5)
        self.link.sendall(len(data).to_bytes(8, "little"))
        self.link.sendall(data)

    def receive(self) -> torch.Tensor | None:
        size = int.from_bytes(self.file.read(8), "little")
        tensor: torch.Tensor = pickle.loads(self.file.read(size))
        return tensor

    def close(self) -> None:
        self.link.close()
