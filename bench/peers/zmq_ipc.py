"""pyzmq over ipc: a header and the bytes as two parts, neither copied by Python."""

from __future__ import annotations

from typing import Any

import torch

from peers.peer import PATIENCE, Peer


class Zmq(Peer):
    name = "pyzmq ipc"
    module = "zmq"
    fresh = True  # the bytes are its own until they are sent

    def open_sender(self) -> None:
        import zmq

        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PUSH)
        self.socket.connect(f"ipc://{self.folder}/zmq")

    def open_receiver(self) -> None:
        import zmq

        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PULL)
        self.socket.rcvtimeo = int(PATIENCE * 1000)
        self.socket.bind(f"ipc://{self.folder}/zmq")

    def send(self, message: Any) -> None:
        self.socket.send_multipart([b"uint8", message.numpy()], copy=False)

    def receive(self) -> torch.Tensor | None:
        _, frame = self.socket.recv_multipart(copy=False)
        return torch.frombuffer(frame.buffer, dtype=torch.uint8)

    def close(self) -> None:
        self.context.destroy(linger=0)
