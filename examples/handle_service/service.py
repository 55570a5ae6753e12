"""Doubles tensors over HTTP: requests and answers are handles, the tensors stay where they are.

python service.py [PORT]     # 127.0.0.1, and any free port if none is given; prints which
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

import tensorbus as tb

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

LIBRARY: Any = "numpy" if torch is None else "torch"


def compute(tensor: Any) -> Any:
    """Twice the tensor, into memory of the bus: the answer is not copied."""
    multiply = np.multiply if torch is None else torch.mul
    return multiply(tensor, 2, out=tb.empty(like=tensor))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a connection serves many requests
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            tensor = tb.attach(json.loads(body), library=LIBRARY, timeout=10)
        except (tb.Error, ValueError) as error:
            return self.answer(400, {"error": str(error)})
        # Gone as soon as the client has it; if it never comes for it, after a minute.
        shared = tb.share(compute(tensor), uses=1, ttl=60)
        self.server.keep(shared)  # type: ignore[attr-defined]
        self.answer(200, shared.handle.to_dict())

    def answer(self, status: int, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self._shared: list[tb.Shared] = []

    def keep(self, shared: tb.Shared) -> None:
        """A share ends with its object: keep those that somebody may still come for."""
        self._shared = [each for each in self._shared if each.open] + [shared]


if __name__ == "__main__":
    with Service(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as service:
        print(service.server_port, flush=True)
        service.serve_forever()
