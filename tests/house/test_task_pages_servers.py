"""The servers of the pages in docs/tasks: over HTTP, too, and killed."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from support.harness import PATIENCE, eventually
from support.programs.task_pages import python, running, write_programs

pytestmark = pytest.mark.timeout(600)


def test_an_inference_service_whose_worker_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    write_programs("inference_service", tmp_path)
    with running(*python(tmp_path / "service.py")) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "ready\n"
        children = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
        client = subprocess.Popen(python(tmp_path / "client.py"), stdout=subprocess.PIPE, text=True)
        os.kill(worker_among(children), signal.SIGKILL)
        told, _ = client.communicate(timeout=3 * PATIENCE)
        service.send_signal(signal.SIGINT)
        service.wait(PATIENCE)
    assert (client.returncode, told) == (0, "(8, 10) 8.0\n")


def http(place: Path, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """The status and the body that a web server on a Unix socket answers."""
    with closing(HTTPConnection("localhost")) as connection:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(place))
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def listens(place: Path) -> bool:
    """Says whether a process accepts connections there: the socket's file is older than that."""
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        return connection.connect_ex(str(place)) == 0


def ask_and_leave(place: Path, image: bytes) -> None:
    """An HTTP client closes its connection soon after its request."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(place))
        head = f"POST /classify HTTP/1.1\r\nHost: a\r\nContent-Length: {len(image)}\r\n\r\n"
        client.sendall(head.encode() + image)
        select.select([client], [], [], 0.2)


def is_noticed_to_leave(web: subprocess.Popen[str], place: Path, image: bytes) -> bool:
    """An HTTP client closes its connection soon after its request: does the handler print that?"""
    ask_and_leave(place, image)
    assert web.stdout is not None
    readable, _, _ = select.select([web.stdout], [], [], 1)
    return bool(readable) and web.stdout.readline() == "the client is gone\n"


def web_server(program: Path, place: Path) -> tuple[str | Path, ...]:
    """The command of a web server on a Unix socket."""
    command = (sys.executable, "-m", "uvicorn", "--app-dir", program.parent)
    return *command, f"{program.stem}:app", "--uds", place, "--no-access-log"


@pytest.mark.slow
def test_an_inference_service_for_http_whose_workers_are_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    write_programs("inference_service", tmp_path)
    place = tmp_path / "app.sock"
    image = bytes(4 * 3 * 224 * 224)

    def classify(_: int) -> tuple[int, int]:
        status, body = http(place, "POST", "/classify", image)
        return status, len(json.loads(body))

    def stats() -> Any:
        return json.loads(http(place, "GET", "/stats")[1])

    with running(*web_server(tmp_path / "app.py", place)) as web, ThreadPoolExecutor(16) as clients:
        eventually(lambda: listens(place))
        assert set(clients.map(classify, range(64))) == {(200, 10)}
        assert http(place, "POST", "/classify", b"short")[0] == 400
        assert stats()["mean_batch"] > 1
        children = Path(f"/proc/{web.pid}/task/{web.pid}/children").read_text().split()
        workers = workers_among(children)
        assert len(workers) == stats()["workers"]
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        answers = clients.map(classify, range(16))
        eventually(lambda: ask_and_leave(place, image) or stats()["cancelled"] > 0)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        assert set(answers) == {(200, 10)}
        assert stats()["restarts"] == len(workers)
        web.send_signal(signal.SIGINT)
        assert web.wait(PATIENCE) in (0, -signal.SIGINT)


@pytest.mark.slow
def test_a_web_server_whose_service_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    for package in ("starlette", "uvicorn"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    write_programs("web_servers", tmp_path)
    place = tmp_path / "web.sock"
    server = web_server(tmp_path / "web.py", place)
    image = bytes(4 * 3 * 32 * 32)

    def classify(_: int) -> tuple[int, int]:
        status, body = http(place, "POST", "/classify", image)
        return status, len(json.loads(body))

    with running(*server) as web, ThreadPoolExecutor(16) as clients:
        with running(*python(tmp_path / "classifier.py")) as service:
            eventually(lambda: listens(place))
            while http(place, "GET", "/ready")[0] != 200:  # each waits for a second
                pass
            assert set(clients.map(classify, range(100))) == {(200, 10)}
            assert http(place, "POST", "/classify", b"short")[0] == 400
            service.send_signal(signal.SIGSTOP)
            answers = clients.map(classify, range(16))
            eventually(lambda: is_noticed_to_leave(web, place, image))
        with running(*python(tmp_path / "classifier.py")):  # the first one was killed
            assert set(answers) == {(200, 10)}


def worker_among(children: list[str]) -> int:
    """The first worker of a pool."""
    return min(workers_among(children))


def workers_among(children: list[str]) -> list[int]:
    """The workers of a pool: other children are helpers of multiprocessing."""
    command = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, line in command.items() if b"spawn_main" in line]
