"""Who keeps what is on its way between the processes of one program.

A tensor that is sent through a pipe is shared for one attachment, and its handle is what the pipe
carries. Whoever sends it may be gone before it is received. So the process that started the first
of the others keeps all of it: children hand what they send over to it, before the handle leaves.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from secrets import token_hex

from msgspec import Struct, msgpack

from tensorbus import _core
from tensorbus._base.errors import Closed, InvalidArgument
from tensorbus._base.participant import participant
from tensorbus._pickling import lending, torch_sharing
from tensorbus._pickling.lending import offered

# Seconds in which the keeper attaches to what a child hands over: the child waits for it.
_PATIENCE = 60.0
# Seconds until the keeper listens again after it could not.
_PAUSE = 0.1


class Keep(Struct, tag=True):
    """To the keeper: keep what is behind this handle, for so long at most."""

    handle: bytes
    ttl: float


class Lend(Struct, tag=True):
    """To the process that forked us: share the memory that we have inherited from it."""

    address: int
    size: int


class Answer(Struct):
    handle: bytes = b""
    error: str = ""


class Settings(Struct):
    """What a child takes over from the process that starts it."""

    keeper: str = ""  # the address of its service; empty: this process keeps for itself
    ttl: float = lending.DEFAULT_TTL


settings = Settings()
_of_ours = 0  # the process that was started with them


class Service:
    """Answers the processes that this one has started, in threads of its own."""

    def __init__(self) -> None:
        # In the abstract namespace there is no file that could stay behind.
        self.address = f"\0tensorbus-{token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address)
        self._socket.listen(socket.SOMAXCONN)
        threading.Thread(target=self._accept, name="tensorbus-keeper", daemon=True).start()

    def close_in_child(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._socket.accept()
            except OSError:  # no descriptor left, say
                time.sleep(_PAUSE)
                continue
            if not _is_ours(accepted):
                accepted.close()
                continue
            connection = Connection(accepted.detach())
            threading.Thread(
                target=_serve, args=(connection,), name="tensorbus-keeper", daemon=True
            ).start()


class Client:
    """The way to one service; one question at a time. Thread-safe."""

    def __init__(self, address: str) -> None:
        self._lock = threading.Lock()
        self._connection = Connection(_connected(address))

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def ask(self, question: Keep | Lend) -> bytes:
        with self._lock:
            try:
                self._connection.send_bytes(msgpack.encode(question))
                answer = msgpack.decode(self._connection.recv_bytes(), type=Answer)
            except BaseException:  # an interrupt, too: the answer would be taken for the next one
                self._connection.close()
                raise
        if answer.error:
            raise Closed(answer.error)
        return answer.handle


_starting = threading.Lock()
_service: Service | None = None
_clients: dict[str, Client] = {}


def offer(outgoing: _core.Outgoing, fields: bytes) -> bytes:
    """Shares a message for one process to attach to, whatever becomes of this one: its handle.

    Raises:
        OutOfMemory: a limit was reached; the message names it.
    """
    shared = _core.share(outgoing, fields, 1, settings.ttl, True, participant())
    if settings.keeper:
        with suppress(OSError, EOFError):  # the keeper is gone: its children see to themselves
            handle = shared.handle.bytes()
            return _client(settings.keeper).ask(Keep(handle, settings.ttl))
    return lending.kept.add(shared)


@contextmanager
def offers_to_child() -> Iterator[list[bytes]]:
    """While a process is started: the handles of what this one keeps for it alone."""
    outer, offered.handles = offered.handles, []
    try:
        yield offered.handles
    finally:
        offered.handles = outer


def withdraw(handles: list[bytes]) -> None:
    """Whoever they were for has them, or will never."""
    for handle in handles:
        lending.kept.drop(handle)


def borrow(service: str, address: int, size: int) -> _core.Memory:
    """Memory that this process has inherited by a fork, as its owner lends it.

    Raises:
        Closed: the owner does not have it any more.
        OSError, EOFError: the owner is gone.
    """
    handle = _client(service).ask(Lend(address, size))
    return lending.borrow(handle, _core.Access.SHARED).memory(0)


def is_of_ours() -> bool:
    """Was this process started by our means, and not by the standard library's or PyTorch's?"""
    return _of_ours == os.getpid()


def service_address() -> str:
    """Of this process's service, which runs from now on."""
    global _service
    with _starting:
        if _service is None:
            _service = Service()
        return _service.address


def settings_for_child() -> bytes:
    """What a process that is about to be started is to `adopt`."""
    return msgpack.encode(Settings(settings.keeper or service_address(), settings.ttl))


def adopt(encoded: bytes) -> None:
    """In a new process: takes over what its parent gave it."""
    global settings, _of_ours
    settings = msgpack.decode(encoded, type=Settings)
    _of_ours = os.getpid()
    lending.settings.ttl = settings.ttl


def set_ttl(seconds: float) -> None:
    """How long a tensor that was sent through a pipe is kept if nobody receives it.

    It counts for what this process sends, and for the processes that it starts from now on.
    """
    if not seconds > 0:
        raise InvalidArgument(f"seconds={seconds!r}: expected a number above 0")
    settings.ttl = lending.settings.ttl = float(seconds)


def get_ttl() -> float:
    """See `set_ttl`."""
    return settings.ttl


def _client(address: str) -> Client:
    with _starting:
        client = _clients.get(address)
        if client is None or client.closed:
            client = _clients[address] = Client(address)
    return client


def _connected(address: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.connect(address)
        return made.detach()


def _is_ours(accepted: socket.socket) -> bool:
    """Whoever connects must be of the same user."""
    size = struct.calcsize("3i")
    credentials = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    user: int = struct.unpack("3i", credentials)[1]
    return user == os.geteuid()


def _serve(connection: Connection) -> None:
    """Answers one process for as long as it lives."""
    with connection, suppress(OSError, EOFError):
        while True:
            question = msgpack.decode(connection.recv_bytes(), type=Keep | Lend)
            try:
                answer = Answer(_answer(question))
            except Exception as error:  # whoever asked raises it
                answer = Answer(error=str(error))
            connection.send_bytes(msgpack.encode(answer))


def _answer(question: Keep | Lend) -> bytes:
    outgoing, fields = _core.Outgoing(), b""
    if isinstance(question, Keep):
        found = _core.attach(
            _core.Handle.from_bytes(question.handle),
            _core.Access.SHARED,
            _PATIENCE,
            participant(),
        )
        if not isinstance(found, _core.Sample):
            raise Closed("the process that sends does not answer")
        fields = found.fields
        for index in range(found.tensor_count):
            outgoing.add_received(found.memory(index))
        ttl = question.ttl
    else:
        memory = torch_sharing.moved_at(question.address, question.size)
        outgoing.add_buffer(memory, 0)
        ttl = _PATIENCE
    return lending.kept.add(_core.share(outgoing, fields, 1, ttl, True, participant()))


def _lend_to_child() -> Callable[[int, int], _core.Memory] | None:
    return partial(borrow, _service.address) if _service is not None else None


def _forget_parent() -> None:
    """A forked child has no threads yet, and nothing to keep."""
    global _starting, _service
    _starting = threading.Lock()
    _clients.clear()
    if _service is not None:
        settings.keeper = settings.keeper or _service.address
        _service.close_in_child()
        _service = None


torch_sharing.lend_to_child = _lend_to_child
os.register_at_fork(after_in_child=_forget_parent)  # after that of _torch_sharing
