"""Bridges in processes of their own, and a relay between them that a test can cut."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tensorbus as tb
from support.harness import PATIENCE, eventually

STATUS_TOPIC = "tensorbus/bridge"


def free_port() -> int:
    """A port of this host that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


class Machine:
    """A domain on this host that stands for a machine, and its bridge.

    Args:
        folder: for the domain and for what the bridge prints.
        name: of the machine.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.domain = str(folder / name)
        self.port = free_port()
        self.program = [sys.executable, "-m", "tensorbus"]
        self.environment: Mapping[str, str] = {}  # of the bridge, beside that of the test
        self._output = folder / f"{name}.log"
        self._options: list[str] = []
        self._bridge: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, *options: str, trust: bool = True) -> None:
        """Starts the bridge."""
        self._options = [*options, *(["--trust-network"] if trust else [])]
        self.restart()

    def restart(self) -> None:
        """Starts the bridge with the options that it had."""
        with self._output.open("ab") as output:
            self._bridge = subprocess.Popen(
                [
                    *(*self.program, "bridge"),
                    *("--name", self.name, "--domain", self.domain, *self._options),
                ],
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment},
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._bridge is not None
        self._bridge.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, also for a bridge that is stopped."""
        assert self._bridge is not None
        self._bridge.kill()
        self._bridge.wait(PATIENCE)

    def finish(self) -> int:
        """Ends the bridge as its users do. Returns its exit status."""
        if self._bridge is None or self._bridge.poll() is not None:
            return 0
        self._bridge.send_signal(signal.SIGCONT)
        self._bridge.terminate()
        try:
            return self._bridge.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._bridge.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the bridge."""
        assert self._bridge is not None
        return self._bridge.pid

    def descriptors(self) -> int:
        """How many the bridge has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def wait(self) -> int:
        """The exit status of a bridge that ends by itself."""
        assert self._bridge is not None
        return self._bridge.wait(PATIENCE)

    @property
    def output(self) -> str:
        return self._output.read_text() if self._output.exists() else ""

    def status(self) -> dict[str, Any]:
        with tb.Subscriber[Any](STATUS_TOPIC, domain=self.domain, timeout=PATIENCE) as subscriber:
            status: dict[str, Any] = subscriber.receive().data
            return json.loads(json.dumps(status))

    def peer(self, name: str) -> dict[str, Any] | None:
        """What the bridge says of one peer."""
        return next((one for one in self.status()["peers"] if one["machine"] == name), None)

    def wait_for_peer(self, name: str) -> None:
        """Until the bridge is connected with that of another machine."""
        with tb.Subscriber[Any](STATUS_TOPIC, domain=self.domain, timeout=PATIENCE) as subscriber:
            for sample in subscriber:
                peers = sample.data["peers"]
                if any(one["machine"] == name and one["connected"] for one in peers):
                    return

    def topics(self) -> dict[str, list[tb.PublisherInfo]]:
        """The publishers that its programs see, by topic, but for those of the bridge itself."""
        found = tb.list_topics(self.domain)
        return {
            one.name: list(one.publishers) for one in found if not one.name.startswith("tensorbus/")
        }


@contextmanager
def machines(folder: Path, *names: str) -> Iterator[list[Machine]]:
    """Machines without bridges as yet; their bridges end with the block."""
    made = [Machine(folder, name) for name in names]
    try:
        yield made
    finally:
        for machine in made:
            machine.finish()


@contextmanager
def two_machines(
    folder: Path,
    *options: str,
    through: Relay | None = None,
    environment: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Any]:
    """Two machines whose bridges are connected; the second one connects.

    Args:
        environment: of the bridges, beside that of the test, by the name of the machine.
    """
    with machines(folder, "here", "there") as (here, there):
        for machine in (here, there):
            machine.environment = (environment or {}).get(machine.name, {})
        here.start("--listen", here.address, *options)
        if through is not None:
            through.target = here.port
        address = here.address if through is None else f"127.0.0.1:{through.port}"
        there.start("--connect", address, *options)
        here.wait_for_peer("there")
        there.wait_for_peer("here")
        yield here, there


def appears(machine: Machine, topic: str) -> None:
    """Waits until programs of the machine see the topic."""
    eventually(lambda: topic in machine.topics())


class Relay:
    """Passes TCP connections on, until it is told otherwise."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target = 0
        self.passed = 0  # bytes
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections, and those to come, until mend()."""
        with self._lock:
            self._is_cut = True
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def drop(self) -> None:
        """Ends all connections, and takes new ones."""
        self.cut()
        with self._lock:
            self._is_cut = False

    def stall(self) -> None:
        """Passes nothing on, and closes nothing, until mend()."""
        self._flows.clear()

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False
        self._flows.set()

    def close(self) -> None:
        self.mend()
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        buffer = bytearray(1 << 18)
        with suppress(OSError):
            while count := source.recv_into(buffer):
                self._flows.wait()
                self.passed += count
                target.sendall(memoryview(buffer)[:count])
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
