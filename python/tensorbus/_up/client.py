"""Requests to running pipelines, from other processes of the same user."""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tensorbus._base.errors import Closed, InvalidArgument
from tensorbus._base.participant import participant
from tensorbus._up.control import PREFIX, SUFFIX, Request

_RETRY = 0.01  # seconds


def find(domain: str | None, name: str | None) -> Path:
    """The socket of a running pipeline.

    Args:
        domain: see `tensorbus.participant`.
        name: the pipeline; None if only one runs.

    Raises:
        InvalidArgument: no pipeline of this name runs on the domain, or there are several.
    """
    folder = participant(domain).domain
    found = sockets(folder)
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    names = f": there are {', '.join(found)}" if found else ""
    wanted = f"no pipeline {name!r} runs" if name else "no pipeline runs"
    if found and name is None:
        wanted = "several pipelines run"
    raise InvalidArgument(f"{wanted} on {folder}{names}")


def sockets(folder: str) -> dict[str, Path]:
    """The sockets of the pipelines that run on the domain of this path, by their names."""
    return {
        path.name.removeprefix(PREFIX).removesuffix(SUFFIX): path
        for path in sorted(Path(folder).glob(f"{PREFIX}*{SUFFIX}"))
        if _is_served(path)
    }


def ask(path: Path, request: Request, timeout: float | None = None) -> dict[str, Any]:
    """The reply to a request.

    Raises:
        TimeoutError: there was no reply within `timeout` seconds.
        InvalidArgument: the pipeline refuses the request.
        Closed: the pipeline has ended.
    """
    for reply in _lines(path, request, timeout):
        if error := reply.get("error"):
            raise InvalidArgument(error)
        return reply
    raise Closed("the pipeline has ended")


def logs(path: Path, request: Request) -> Iterator[dict[str, Any]]:
    """The lines of processes, as fields of `LogLine`."""
    for line in _lines(path, request, None):
        if error := line.get("error"):
            raise InvalidArgument(error)
        yield line


def _lines(path: Path, request: Request, timeout: float | None) -> Iterator[dict[str, Any]]:
    with _connected(path, timeout) as connection:
        connection.sendall(msgspec.json.encode(request) + b"\n")
        with connection.makefile("rb") as replies:
            try:
                for line in replies:
                    if not line.endswith(b"\n"):
                        raise ConnectionResetError
                    yield json.loads(line)
            except ConnectionResetError:
                raise Closed("the pipeline has ended") from None


def _connected(path: Path, timeout: float | None) -> socket.socket:
    """A connection with the pipeline, for which this waits while too many clients wait already.

    Raises:
        TimeoutError: that took too long.
        Closed: no process listens: the file of a killed one stays.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
            return connection
        except BlockingIOError:
            connection.close()
            if time.monotonic() >= until:
                raise TimeoutError from None
            time.sleep(_RETRY)  # no event tells that there is room
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            raise Closed("the pipeline has ended") from None
        except BaseException:
            connection.close()
            raise


def _is_served(path: Path) -> bool:
    """Whether a process listens, also if too many clients wait for it."""
    try:
        _connected(path, 0).close()
    except TimeoutError:
        return True
    except (Closed, OSError):
        return False
    return True
