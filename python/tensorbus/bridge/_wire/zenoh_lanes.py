"""Lanes over a Zenoh network: bridges find each other, also behind routers.

Zenoh is used only to find the bridges of a fleet and to carry bytes. A missing message ends the
connection; the session continues over the next one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import zenoh

from tensorbus._base.errors import InvalidArgument, ProtocolError
from tensorbus.bridge._rules import Peer
from tensorbus.bridge._shortage import SHORTAGES, require_shortage
from tensorbus.bridge._wire.lane import BULK, EXPRESS, SILENCE, Lane
from tensorbus.bridge._wire.secret_files import require_private

logger = logging.getLogger("tensorbus.bridge")

_THERE, _BACK = "there", "back"  # direction: from the side that connects, and to it
_SEQUENCE = struct.Struct("<Q")
_LAST = 2**64 - 1  # the sequence number of the message that ends a lane
_AT_ONCE = 4 << 20  # bytes that may wait for Zenoh before the lane counts as not writable
_MAX_BYTES = 64 << 10  # of a message; a slow network carries several per SILENCE
_RETRY = 1.0  # seconds

# Settings of Zenoh: it shares no memory, and tries to reach a lost router at least once a second.
_SETTINGS = {
    "transport/shared_memory/enabled": "false",
    "connect/retry": '{"period_init_ms": 50, "period_max_ms": 1000, "period_increase_factor": 2}',
}

# Keys of a Zenoh file: names of secret files, and secrets in the file itself.
_SECRET_FILES = (
    "transport/link/tls/listen_private_key",
    "transport/link/tls/connect_private_key",
    "transport/auth/pubkey/private_key_file",
    "transport/auth/usrpwd/dictionary_file",
)
_SECRETS = (
    "transport/link/tls/listen_private_key_base64",
    "transport/link/tls/connect_private_key_base64",
    "transport/auth/pubkey/private_key_pem",
    "transport/auth/usrpwd/password",
)

_Key = tuple[str, str, str, str]  # the other bridge, the connection, the lane, the direction


class Fleet:
    """The bridges of one fleet on a Zenoh network. In the event loop of its bridge.

    All express lanes share one Zenoh session; the bulk lanes have one session per peer. So a peer
    that does not read delays only its own bulk lane.

    Args:
        config: a Zenoh file (JSON5): mode, endpoints, certificates. This bridge is a client of
            a router, or a router.
        name: of the fleet.
        bridge: the id of this bridge.
        found: called with the id of each bridge that has joined.
        lost: called with the id of each bridge that has left.
        accept: returns a lane for a connection that another bridge begins.
    """

    def __init__(
        self,
        config: str,
        name: str,
        bridge: str,
        found: Callable[[str], None],
        lost: Callable[[str], None],
        accept: Callable[[], Lane],
    ) -> None:
        self._config = config
        self._prefix = f"tensorbus/{name}"
        self._bridge = bridge
        self._found = found
        self._lost = lost
        self._accept = accept
        self._loop = asyncio.get_running_loop()
        self._express: Any = None  # the Zenoh session of all express lanes
        self._bulk: dict[str, Any] = {}  # the Zenoh sessions of bulk lanes, by peer
        self._met: dict[str, asyncio.Task[None]] = {}  # by id of each bridge that is present
        self._lanes: dict[_Key, _ZenohLane] = {}

    async def run(self) -> None:
        """Finds other bridges until cancelled.

        Raises:
            InvalidArgument: the file is invalid.
            AccessDenied: other users may read a key or a password.
        """
        try:
            self._express = await self._open(self._settings())
            small = self._subscribe(self._express, "*", EXPRESS)
            alive = self._express.liveliness()
            token = alive.declare_token(f"{self._prefix}/alive/{self._bridge}")
            others = alive.declare_subscriber(
                f"{self._prefix}/alive/*", self._in_loop(self._on_token), history=True
            )
            await self._loop.create_future()  # waits for ever
            del small, token, others  # kept alive until here
        finally:
            for meeting in self._met.values():
                meeting.cancel()
            for lane in list(self._lanes.values()):
                lane.lose("the bridge was stopped")
            if self._express is not None:
                self._express.close()

    async def dial(self, peer: str, connection: str, name: str, lane: Lane) -> None:
        """Connects a lane with another bridge of the fleet."""
        self._begin((peer, connection, name, _BACK), lane)

    def _settings(self) -> Any:
        """Returns the settings of the file with `_SETTINGS`, after checking them."""
        try:
            config = zenoh.Config.from_file(self._config)
            for key, value in _SETTINGS.items():
                config.insert_json5(key, value)
            if config.get_json("mode") not in ('"client"', '"router"'):
                raise InvalidArgument(
                    f"{self._config}: mode: expected client or router: peers do not forward data"
                )
        except zenoh.ZError as error:
            raise InvalidArgument(f"{self._config}: {error}") from None
        self._check_secrets(config)
        return config

    def _check_secrets(self, config: Any) -> None:
        for key in _SECRET_FILES:
            path = json.loads(config.get_json(key))
            if path is not None and Path(path).exists():  # Zenoh reports a missing file
                require_private(path)
        if any(json.loads(config.get_json(key)) is not None for key in _SECRETS):
            require_private(self._config, "file, which has a key or a password")
        for way in ("listen", "connect"):
            if "private_key" in config.get_json(f"{way}/endpoints"):
                raise InvalidArgument(
                    f"{self._config}: {way}/endpoints: keys belong into transport/link/tls"
                )

    def _client_settings(self) -> Any:
        """Returns the settings of a second session: a client, even if the first is a router."""
        config = self._settings()
        if config.get_json("mode") == '"router"':
            endpoints = config.get_json("listen/endpoints")
            config.insert_json5("mode", '"client"')
            config.insert_json5("listen/endpoints", "[]")
            config.insert_json5("connect/endpoints", endpoints)
        return config

    async def _open(self, config: Any) -> Any:
        last = ""
        while True:
            opening: asyncio.Future[Any] | None = None
            try:
                opening = self._loop.run_in_executor(None, zenoh.open, config)
                return await asyncio.shield(opening)
            except asyncio.CancelledError:
                if opening is not None:
                    opening.add_done_callback(_close)
                raise
            except (zenoh.ZError, *SHORTAGES) as error:
                if not isinstance(error, zenoh.ZError):
                    require_shortage(error)
                if str(error) != last:
                    logger.warning("zenoh: not connected: %s", error)
                last = str(error)
            await asyncio.sleep(_RETRY)

    def _in_loop(self, call: Callable[..., None]) -> Callable[[Any], None]:
        def told(sample: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(call, sample)

        return told

    def _subscribe(self, session: Any, peer: str, name: str) -> Any:
        key = f"{self._prefix}/{self._bridge}/{peer}/*/{name}/*"
        return session.declare_subscriber(key, self._in_loop(self._on_data))

    def _on_token(self, sample: Any) -> None:
        peer = str(sample.key_expr).rpartition("/")[2]
        if peer == self._bridge:
            return
        meeting = self._met.pop(peer, None)
        if meeting is not None:
            meeting.cancel()
        if sample.kind == zenoh.SampleKind.PUT:
            self._met[peer] = self._loop.create_task(self._meet(peer))

    async def _meet(self, peer: str) -> None:
        """Runs while another bridge is present."""
        session = await self._open(self._client_settings())
        try:
            large = self._subscribe(session, peer, BULK)
            self._bulk[peer] = session
            self._found(peer)
            await self._loop.create_future()  # waits until cancelled
            del large
        finally:
            if self._bulk.get(peer) is session:
                del self._bulk[peer]
            for key, lane in list(self._lanes.items()):
                if key[0] == peer:
                    lane.lose("the bridge has left the fleet")
            self._lost(peer)
            self._loop.run_in_executor(None, session.close)

    def _on_data(self, sample: Any) -> None:
        key: _Key = tuple(str(sample.key_expr).split("/")[-4:])  # type: ignore[assignment]
        data = sample.payload.to_bytes()
        if len(data) < _SEQUENCE.size:
            return
        lane = self._lanes.get(key)
        if lane is None:
            first = data[: _SEQUENCE.size] == _SEQUENCE.pack(0)
            if key[3] != _THERE or not first:
                return
            accepted = self._accept()
            try:
                lane = self._begin(key, accepted)
            except SHORTAGES as error:
                require_shortage(error)
                return accepted.connection_lost(ConnectionError(str(error)))
        lane.feed(data)

    def _begin(self, key: _Key, lane: Lane) -> _ZenohLane:
        peer, connection, name, way = key
        session = self._express if name == EXPRESS else self._bulk.get(peer)
        if session is None:
            raise ProtocolError("the bridge has left the fleet")
        other = _BACK if way == _THERE else _THERE
        to = f"{self._prefix}/{peer}/{self._bridge}/{connection}/{name}/{other}"
        self._lanes[key] = made = _ZenohLane(lane, session, to, lambda: self._lanes.pop(key, None))
        lane.begin(Peer(f"zenoh/{peer}", None), made, made.abort)
        return made


def _close(opening: asyncio.Future[Any]) -> None:
    """Closes a session that has opened after its caller was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class _ZenohLane:
    """Carries the bytes of a lane as numbered Zenoh messages. It is the writer of the lane.

    Args:
        session: of Zenoh.
        to: the key to publish under.
        on_end: called when the lane has ended.
    """

    def __init__(self, lane: Lane, session: Any, to: str, on_end: Callable[[], Any]) -> None:
        self._lane = lane
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._expected = 0
        self._waiting = 0  # bytes
        self._over = False
        self._queue: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        threading.Thread(
            target=self._put_all, args=(session, to), name="tensorbus-zenoh", daemon=True
        ).start()

    # The writer of the lane.
    @property
    def unsent(self) -> int:
        return max(0, self._waiting - _AT_ONCE)

    def write(self, *parts: bytes | memoryview) -> None:
        data = memoryview(b"".join(parts))
        self._waiting += len(data)
        for begin in range(0, len(data), _MAX_BYTES):
            self._queue.put(data[begin : begin + _MAX_BYTES])

    def close(self) -> None:
        self._queue.put(None)

    def abort(self) -> None:
        self._loop.call_soon(self.lose, "")

    # In the loop.
    def feed(self, data: bytes) -> None:
        """Takes a message of the peer."""
        if self._lane.closed:
            return
        (sequence,) = _SEQUENCE.unpack_from(data)
        if sequence == _LAST:
            return self.lose("the peer has hung up")
        if sequence != self._expected:
            return self._lane.close(f"Zenoh lost messages: {sequence}, not {self._expected}")
        self._expected += 1
        rest = memoryview(data)[_SEQUENCE.size :]
        while rest and not self._lane.closed:
            buffer = self._lane.get_buffer(-1)
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            rest = rest[count:]
            self._lane.buffer_updated(count)

    def lose(self, why: str) -> None:
        if self._over:
            return
        self._over = True
        self._on_end()
        self._lane.connection_lost(ConnectionError(why) if why else None)

    def _on_put(self, count: int) -> None:
        was_full = self.unsent > 0
        self._waiting -= count
        if was_full and self.unsent == 0:
            self._lane.resume_writing()

    # In its own thread: it waits for Zenoh, which waits for the peer.
    def _put_all(self, session: Any, to: str) -> None:
        try:
            publisher = session.declare_publisher(
                to,
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                allowed_destination=zenoh.Locality.REMOTE,
                express=True,
            )
            if not self._has_reader(publisher):
                return self._in_loop(self._lane.close, "no such bridge is in the fleet")
            sequence = 0
            while (data := self._queue.get()) is not None:
                publisher.put(b"".join((_SEQUENCE.pack(sequence), data)))
                sequence += 1
                self._in_loop(self._on_put, len(data))
            publisher.put(_SEQUENCE.pack(_LAST))
        except zenoh.ZError as error:
            self._in_loop(self._lane.close, f"zenoh: {error}")

    @staticmethod
    def _has_reader(publisher: Any) -> bool:
        matched = threading.Event()

        def look(status: Any) -> None:
            if status.matching:
                matched.set()

        listener = publisher.declare_matching_listener(look)
        found = publisher.matching_status.matching or matched.wait(SILENCE)
        listener.undeclare()
        return bool(found)

    def _in_loop(self, call: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call, *arguments)
