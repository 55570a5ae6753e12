"""The socket of a running pipeline, in the directory of its domain, for the same user.

A client sends one line of JSON, a `Request`. The reply is one line of JSON, for "wait" as soon as
the pipeline is healthy, for "stop" with `wait` as soon as the processes have ended. For "logs" it
is the lines of processes, with `follow` also those that come later, until the client or the
pipeline ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tensorbus._base.errors import AccessDenied, InvalidArgument
from tensorbus._up.events import OWN_NAME, LogLine
from tensorbus._up.output import json_line
from tensorbus._up.process import Running
from tensorbus._up.state import Machine, State
from tensorbus._up.supervised import Supervised

_MAX_UNSENT = 4 << 20  # bytes of new lines that a follower has not read; later ones are dropped
_BACKLOG = 1000  # clients that wait while the supervisor is busy
_MAX_PATH = 107  # bytes of a socket's path
_PATIENCE = 1.0  # seconds until clients must have read what they asked for, at the end
PREFIX, SUFFIX = "up.", ".sock"
_REQUESTS = "status, logs, restart, stop, wait, problems"


class Request(msgspec.Struct):
    """What a client asks for."""

    do: str
    """One of `_REQUESTS`."""
    name: str = ""
    """A process; "": all. To stop all is to end the pipeline."""
    follow: bool = False
    lines: int = 1000
    wait: bool = False
    """To stop: the reply comes when the processes have ended."""


@dataclass
class Follower:
    """A client that gets the lines of processes as they come."""

    names: set[str]
    limit: int
    """How many unsent bytes it may have; later lines are dropped."""
    dropped: int = 0

    def tell_dropped(self, writer: asyncio.StreamWriter) -> None:
        """Sends how many lines were dropped since the last line."""
        if self.dropped:
            text = f"{self.dropped} lines were dropped: the reader of this output is slow"
            writer.write(json_line(LogLine(OWN_NAME, time.time_ns(), text)).encode())
            self.dropped = 0


@dataclass
class Stopping:
    """A client that waits for the end of processes that it has stopped."""

    whole: bool
    """It has ended the pipeline, and waits until another one of its name can be started."""
    processes: list[tuple[Supervised, Running | None]]
    """With what ran then: it may be started again meanwhile."""

    def is_under_way(self) -> bool:
        return any(each.running is running for each, running in self.processes if running)


class Control:
    """Serves clients."""

    def __init__(
        self,
        processes: Mapping[str, Supervised],
        unmet: Callable[[str], list[str]],
        problems: Callable[[], list[str]],
        end: Callable[[int], None],
    ) -> None:
        """
        Args:
            processes: by their names.
            unmet: returns the unmet expectations of a process.
            problems: returns why the pipeline is not healthy; empty: it is.
            end: ends the pipeline with an exit status.
        """
        self._processes = processes
        self._unmet = unmet
        self._problems = problems
        self._end = end
        self._waiting: set[asyncio.StreamWriter] = set()
        self._stopping: dict[asyncio.StreamWriter, Stopping] = {}
        self._server: asyncio.Server | None = None
        self._lock = -1
        self._path = Path()
        self._followers: dict[asyncio.StreamWriter, Follower] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()

    async def open(self, folder: str, name: str) -> Path:
        """Listens. Returns the path of the socket.

        Raises:
            InvalidArgument: a pipeline of this name runs on the domain, or the name is too long.
        """
        path = Path(folder, f"{PREFIX}{name}{SUFFIX}")
        if len(os.fsencode(path)) > _MAX_PATH:
            raise InvalidArgument(f"pipeline {name!r}: {path} has more than {_MAX_PATH} bytes")
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InvalidArgument(f"pipeline {name!r} is running on {folder}") from None
        self._lock = lock
        path.unlink(missing_ok=True)
        self._path = path
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listening, backlog=_BACKLOG
        )
        return path

    async def close(self) -> None:
        """Ends all connections, and removes the socket."""
        if self._server:
            self._server.close()
            for name in (self._path, Path(f"{self._path}.lock")):
                name.unlink(missing_ok=True)
        if self._lock >= 0:
            os.close(self._lock)
        self._answer_stopping(is_over=True)
        left = [asyncio.ensure_future(writer.drain()) for writer in self._clients]
        if left:
            await asyncio.wait(left, timeout=_PATIENCE)
            for drained in left:
                drained.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        for writer in [*self._clients]:
            writer.transport.abort()
        # The end of the event loop would cancel them, which asyncio reports.
        await asyncio.gather(*self._serving, return_exceptions=True)

    def print_line(self, line: LogLine) -> None:
        """Sends a line to those that follow its process."""
        for writer, follower in self._followers.items():
            if line.process not in follower.names:
                continue
            if writer.transport.get_write_buffer_size() > follower.limit:
                if not follower.dropped:
                    self._keep(asyncio.ensure_future(_tell_when_read(writer, follower)))
                follower.dropped += 1
                continue
            follower.tell_dropped(writer)
            writer.write(json_line(line).encode())

    def answer_waiting(self) -> None:
        """Replies to clients that wait for what is so now.

        Some wait until the pipeline is healthy or cannot become so, some for stopped processes.
        """
        self._answer_stopping()
        if not self._waiting:
            return
        reply: dict[str, Any] = {"problems": self._problems()}
        failed = [each.name for each in self._processes.values() if each.state is State.FAILED]
        if failed:
            reply = {"error": "; ".join(reply["problems"])}
        elif reply["problems"]:
            return
        while self._waiting:
            writer = self._waiting.pop()
            writer.write(msgspec.json.encode(reply) + b"\n")
            writer.write_eof()

    def _answer_stopping(self, is_over: bool = False) -> None:
        for writer, stopping in [*self._stopping.items()]:
            if is_over or not (stopping.whole or stopping.is_under_way()):
                del self._stopping[writer]
                reply = {"processes": [self._status(each) for each, _ in stopping.processes]}
                writer.write(msgspec.json.encode(reply) + b"\n")
                writer.write_eof()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        if (task := asyncio.current_task()) is not None:
            self._keep(task)
        try:
            _require_same_user(writer)
            line = await reader.readline()
            request = msgspec.json.decode(line, type=Request)
            if request.do == "logs":
                await self._send_logs(request, reader, writer)
            elif request.do == "wait":
                self._waiting.add(writer)
                self.answer_waiting()
                await _until_end_of(reader)
            elif request.do == "stop" and request.wait:
                running = [(each, each.running) for each in self._named(request.name)]
                self._stopping[writer] = Stopping(not request.name, running)
                self._reply(request)
                self._answer_stopping()
                await _until_end_of(reader)
            else:
                writer.write(msgspec.json.encode(self._reply(request)) + b"\n")
            await writer.drain()
        except (msgspec.MsgspecError, InvalidArgument, AccessDenied, ValueError) as error:
            writer.write(msgspec.json.encode({"error": str(error)}) + b"\n")
        except OSError:
            pass  # the client is gone
        finally:
            self._clients.discard(writer)
            self._followers.pop(writer, None)
            self._waiting.discard(writer)
            self._stopping.pop(writer, None)
            writer.close()

    def _reply(self, request: Request) -> Any:
        if request.do == "problems":
            return {"problems": self._problems()}
        if request.do == "status":
            return {"processes": [self._status(each) for each in self._named(request.name)]}
        commands: dict[str, Callable[[Machine], Any]] = {
            "restart": Machine.restart,
            "stop": Machine.stop,
        }
        if request.do not in commands:
            raise InvalidArgument(f"{request.do!r}: expected one of {_REQUESTS}")
        if request.do == "stop" and not request.name:
            self._end(0)
        else:
            for each in self._named(request.name):
                each.command(commands[request.do])
        return {"processes": [self._status(each) for each in self._named(request.name)]}

    def _named(self, name: str) -> list[Supervised]:
        """The process of a name, or all replicas of a table, or all processes for ""."""
        found = [
            each
            for key, each in self._processes.items()
            if name in ("", key, key.partition(".")[0])
        ]
        if not found:
            known = ", ".join(self._processes)
            raise InvalidArgument(f"there is no process {name!r}: there are {known}")
        return found

    def _status(self, process: Supervised) -> dict[str, Any]:
        return {
            **msgspec.to_builtins(process.change()),
            "expectations": len(process.program.expect),
            "unmet": self._unmet(process.name),
        }

    async def _send_logs(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        named = self._named(request.name)
        lines = sorted((line for each in named for line in each.lines), key=_time)
        for line in lines[max(0, len(lines) - request.lines) :]:
            writer.write(json_line(line).encode())
        if request.follow:
            limit = writer.transport.get_write_buffer_size() + _MAX_UNSENT
            self._followers[writer] = Follower({each.name for each in named}, limit)
            await _until_end_of(reader)


async def _tell_when_read(writer: asyncio.StreamWriter, follower: Follower) -> None:
    """Sends how many lines were dropped also if no line comes after them."""
    with suppress(ConnectionError):
        await writer.drain()
        follower.tell_dropped(writer)


async def _until_end_of(reader: asyncio.StreamReader) -> None:
    """Waits until the client ends; what it sends is ignored."""
    while await reader.read(4096):
        pass


def _time(line: LogLine) -> int:
    return line.time_ns


def _require_same_user(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    size = struct.calcsize("3i")
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    if struct.unpack("3i", data)[1] != os.geteuid():
        raise AccessDenied("another user runs this pipeline")
