"""The bridge of a machine: listens, connects, and keeps a session with each peer."""

from __future__ import annotations

import asyncio
import gc
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tensorbus import _core
from tensorbus._base.errors import InvalidArgument, ProtocolError
from tensorbus._topics.publisher import Publisher
from tensorbus._topics.sample import REPLAY
from tensorbus.bridge._budget import Budget, PeerBudget
from tensorbus.bridge._config import (
    BridgeConfig,
    client_context,
    server_context,
)
from tensorbus.bridge._gone import GonePeers
from tensorbus.bridge._queues.exports import QueueExports
from tensorbus.bridge._queues.lists import LocalQueues
from tensorbus.bridge._rules import LOCAL_PREFIX
from tensorbus.bridge._services.server import ServiceServer
from tensorbus.bridge._session import Session
from tensorbus.bridge._shares.server import ShareServer
from tensorbus.bridge._shares.shares import Shares
from tensorbus.bridge._shortage import SHORTAGES, Again, Backoff, require_shortage
from tensorbus.bridge._streams.channel import Channel
from tensorbus.bridge._streams.channels import Serve
from tensorbus.bridge._wire.compression import codecs
from tensorbus.bridge._wire.frames import ANY, MAGIC, VERSION, Hello, PublisherEntry, QueueEntry
from tensorbus.bridge._wire.lane import BULK, EXPRESS, SILENCE, ConnectionOver, Lane, LaneOwner
from tensorbus.bridge._wire.tcp import CLOSED_IN_TLS, TcpNetwork

logger = logging.getLogger("tensorbus.bridge")

_FIRST_RETRY, _LONGEST_RETRY = 0.05, 0.25  # seconds
_SETTLE = 0.02  # seconds during which changes of the domain are collected
_STATUS_EVERY = 1.0  # seconds
_MAX_STRANGERS = 64  # connections that have not sent HELLO yet
_TIME_FOR_HELLO = 0.5  # seconds to wait for HELLO while other connections wait
_MAX_REFUSED = 3  # consecutive connections that protocol errors have ended
_COLLECT_AFTER = 0.1  # seconds after the end of a session; all its tasks have ended by then

# The topic of the bridge's status, published once a second for programs on this machine only.
STATUS_TOPIC = LOCAL_PREFIX + "bridge"

_Key = tuple[str, str]  # key of a session: the peer's machine and bridge id
_NOBODY: _Key = ("", "")

# Connects a lane. Arguments: the names of the connection and of the lane, and the lane.
Dial = Callable[[str, str, Lane], Awaitable[None]]


class Bridge:
    """Connects the topics of this machine's domain with those of other machines.

    Raises:
        InvalidArgument: the configuration is invalid.
        AccessDenied: other users may read the TLS key.
    """

    def __init__(self, config: BridgeConfig) -> None:
        config.check()
        self.config = config
        self._participant = _core.Participant.shared(config.domain, config.budget)
        self.id: str = secrets.token_hex(16)
        self._budget = Budget()
        self._log = self._budget.log
        self._sessions: dict[_Key, Session] = {}
        self._gone = GonePeers()
        self._publishers: dict[str, PublisherEntry] = {}
        self._queues = LocalQueues(self._participant, self._on_queues_changed)
        self._queue_exports = QueueExports(self._queues, config.rules)
        self._shares = Shares(self._participant, self._open_all)
        services = ServiceServer(self._participant, self._queues, config.rules)
        self._served: dict[str, Serve] = {
            "queue": self._queue_exports.serve,
            "service": services.serve,
            "share": ShareServer(self._participant).serve,
        }
        self._pending: dict[Lane, asyncio.TimerHandle] = {}
        self._network = TcpNetwork(
            server_context(config.tls) if config.tls else None,
            client_context(config.tls) if config.tls else None,
        )
        self._look = Again("changes in the domain are not looked at", self._look_at_domain)
        self._demand: set[int] = set()  # publishers whose demand is not passed on yet
        self._look_at_demand = Again("subscribers are not looked at", self._pass_demand_on)
        self._changed = asyncio.Event()  # set when a session is connected or cut
        self._stopped = False

    async def run(self) -> None:
        """Runs until cancelled.

        Raises:
            InvalidArgument: the domain has another bridge.
            OSError: an address to listen on is in use, or is not an address of this host.
        """
        with Publisher[Any](
            STATUS_TOPIC, history=1, domain=self.config.domain or None
        ) as publisher:
            self._require_alone(publisher)
            await self._run(publisher)

    async def _run(self, publisher: Publisher[Any]) -> None:
        loop = asyncio.get_running_loop()
        self._look()
        loop.add_reader(self._participant.domain_fileno(), self._on_domain_changed)
        loop.add_reader(self._participant.subscribers_fileno(), self._on_demand_changed)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._network.listen(self.config.listen)
            work = [
                self._tell_status(publisher),
                self._shares.run(),
                self._network.accept_all(self._room_for_stranger, self._stranger, self._refused),
                *(
                    self._keep_connected(address, partial(self._network.dial, address))
                    for address in self.config.connect
                ),
            ]
            if self.config.zenoh:
                work.append(self._keep_in_fleet())
            tasks += (asyncio.create_task(one) for one in work)
            await asyncio.gather(*tasks)  # a task ends only by an error
        finally:
            loop.remove_reader(self._participant.domain_fileno())
            loop.remove_reader(self._participant.subscribers_fileno())
            self._stopped = True
            self._look.cancel()
            self._look_at_demand.cancel()
            for task in tasks:
                task.cancel()
            self._network.close()
            for lane, timer in list(self._pending.items()):
                timer.cancel()
                lane.close("the bridge was stopped")
            for session in list(self._sessions.values()):
                self._end(session, "the bridge was stopped")
            self._queues.close()
            self._log.close()

    def status(self) -> dict[str, Any]:
        """Returns what `tensorbus bridge status` shows."""
        return {
            "machine": self.config.name,
            "bridge": self.id,
            "publishers": len(self._publishers),
            "shares": self._shares.status(),
            "peers": [session.status() for session in self._sessions.values()],
            "gone": self._gone.status(),
        }

    # The status publisher of this bridge must exist before the call: otherwise two bridges that
    # start at the same time could overlook each other.
    def _require_alone(self, publisher: Publisher[Any]) -> None:
        """
        Raises:
            InvalidArgument: this domain has another bridge.
        """
        own = f"{self._participant.id}.{publisher._core.number}"
        for info in _core.list_publishers(self._participant):
            if info.topic == STATUS_TOPIC and info.publisher != own:
                raise InvalidArgument(
                    f"this domain has a bridge, process {info.pid}, and a machine needs one: end "
                    "that process, or give this bridge another domain"
                )

    async def _tell_status(self, publisher: Publisher[Any]) -> None:
        backoff = Backoff("the status is not published")
        while True:
            delay = _STATUS_EVERY
            try:
                publisher.publish(self.status())
                backoff.succeeded()
            except SHORTAGES as error:
                require_shortage(error)
                delay = backoff.failed(error)
            await asyncio.sleep(delay)

    # The domain.
    def _on_domain_changed(self) -> None:
        self._participant.clear_domain_fileno()
        self._look.within(_SETTLE)

    # No state changes before both lists have been read, so that a failed call can be repeated.
    def _look_at_domain(self) -> None:
        found = {
            info.publisher: PublisherEntry(
                info.publisher,
                info.topic,
                info.node,
                info.type,
                info.depth,
                info.history,
                info.reliable,
            )
            for info in _core.list_publishers(self._participant)
            if not info.machine or info.machine.startswith(REPLAY)
        }
        queues = self._queues.find()
        before, self._publishers = self._publishers, found
        added = [entry for key, entry in found.items() if key not in before]
        removed = [key for key in before if key not in found]
        for session in list(self._sessions.values()):
            with session.whole_or_cut():
                session.domain_changed(added, removed)
        self._queues.found(queues)

    def _on_queues_changed(self, added: list[QueueEntry], removed: list[str]) -> None:
        self._queue_exports.on_gone(removed)
        for session in list(self._sessions.values()):
            with session.whole_or_cut():
                session.queues_changed(added, removed)

    def _open_all(self, kind: str, key: str) -> list[Channel]:
        return [session.channels.open(kind, key) for session in self._sessions.values()]

    def _on_demand_changed(self) -> None:
        self._demand.update(self._participant.take_changed_publishers())
        self._look_at_demand()

    def _pass_demand_on(self) -> None:
        for session in self._sessions.values():
            session.look_at_demand(self._demand)
        self._demand.clear()

    # Incoming connections.
    def _refused(self, lane: Lane, address: str, why: str) -> None:
        if lane in self._pending:
            self._pending.pop(lane).cancel()
            self._log.warning("%s: refused: %s", address, why)

    async def _room_for_stranger(self) -> None:
        """Waits until one more connection may wait for HELLO; closes the oldest one if needed."""
        most = max(1, min(_MAX_STRANGERS, self._budget.descriptors.limit // 16))
        while len(self._pending) >= most:
            oldest = next(iter(self._pending))
            left = oldest.made + _TIME_FOR_HELLO - asyncio.get_running_loop().time()
            if left <= 0 and not oldest.why:
                oldest.close("no HELLO was received, and other connections wait")
            await asyncio.sleep(max(left, _SETTLE))

    def _stranger(self) -> Lane:
        """Returns a new lane, which waits for the peer's HELLO."""
        lane = Lane(self._greet_back, self._on_stranger_gone)
        loop = asyncio.get_running_loop()
        self._pending[lane] = loop.call_later(SILENCE, lane.close, "no HELLO was received")
        return lane

    def _on_stranger_gone(self, lane: Lane, why: str) -> None:
        timer = self._pending.pop(lane, None)
        if timer is not None:
            timer.cancel()
        self._log.warning("%s: %s", lane.peer.address, why)

    def _greet_back(self, lane: Lane, hello: Hello) -> LaneOwner:
        self._pending.pop(lane).cancel()
        self._require_name(lane, hello)
        session = self._sessions.get((hello.machine, hello.bridge))
        if hello.lane == BULK:
            if session is None or session.connection != hello.connection or not session.connected:
                raise ConnectionOver
            lane.send(self._hello(BULK, hello.connection, ""))
            session.add_bulk(lane)
            return session
        name = session.name if session is not None else ""
        goes_on = bool(name) and hello.known in (name, ANY)
        lane.send(self._hello(EXPRESS, hello.connection, name if goes_on else ""))
        return self._connect(lane, hello, hello.bridge, hello.known, goes_on=goes_on)

    # Outgoing connections.
    async def _keep_in_fleet(self) -> None:
        from tensorbus.bridge._wire.zenoh_lanes import Fleet  # an optional dependency

        dialing: dict[str, asyncio.Task[None]] = {}

        def found(peer: str) -> None:
            if self.id < peer and peer not in dialing:  # otherwise the other bridge dials
                dial = partial(fleet.dial, peer)
                task = self._keep_connected(f"zenoh/{peer}", dial, ("", peer))
                dialing[peer] = asyncio.create_task(task)

        def lost(peer: str) -> None:
            if peer in dialing:
                dialing.pop(peer).cancel()

        config = self.config
        fleet = Fleet(config.zenoh, config.fleet, self.id, found, lost, self._stranger)
        try:
            await fleet.run()
        finally:
            for task in dialing.values():
                task.cancel()

    # `peer`: the machine and the bridge at the address; a part that is not known yet is "".
    async def _keep_connected(self, address: str, dial: Dial, peer: _Key = _NOBODY) -> None:
        loop = asyncio.get_running_loop()
        delay = 0.0
        last = ""
        while True:
            begun = loop.time()
            await self._until_cut(peer)
            if loop.time() > begun + _LONGEST_RETRY:  # shorter connections do not end the pauses
                delay, last = 0.0, ""
            await asyncio.sleep(delay)
            delay = min(max(2 * delay, _FIRST_RETRY), _LONGEST_RETRY)
            greeting = _Greeting(self)
            try:
                await self._connect_to(dial, greeting, peer)
            except (*SHORTAGES, ProtocolError, asyncio.TimeoutError) as error:
                if isinstance(error, RuntimeError):
                    require_shortage(error)
                if greeting.peer != _NOBODY:
                    peer = greeting.peer
                if not self._is_connected(peer):  # otherwise the peer has another connection
                    why = str(error) or "no answer came in time"
                    if why != last:
                        logger.warning("%s: not connected: %s", address, why)
                    last = why
            else:
                peer = greeting.peer

    async def _connect_to(self, dial: Dial, first: _Greeting, peer: _Key) -> None:
        connection = secrets.token_hex(16)
        lanes = [express := Lane(first.greeted, first.gone)]
        try:
            await dial(connection, EXPRESS, express)
            first.known = self._known(peer)
            express.send(self._hello(EXPRESS, connection, first.known))
            second = _Greeting(self, await first.met)
            lanes.append(bulk := Lane(second.greeted, second.gone))
            await dial(connection, BULK, bulk)
            bulk.send(self._hello(BULK, connection, ""))
            await second.met
        except BaseException:
            for lane in lanes:
                lane.close("a lane of the connection was not connected")
            raise

    # Both parts of the key must match: a certificate proves only the name of the machine, and a
    # bridge may claim any id.
    def _session_with(self, peer: _Key) -> Session | None:
        machine, bridge = peer
        if machine or not bridge:
            return self._sessions.get(peer)
        return next((one for one in self._sessions.values() if one.peer == bridge), None)

    # Returns HELLO.known for the bridge at an address.
    def _known(self, peer: _Key) -> str:
        session = self._session_with(peer)
        if session is not None:
            return session.name
        return ANY if peer == _NOBODY and self._sessions else ""

    def _is_connected(self, peer: _Key) -> bool:
        session = self._session_with(peer)
        return session is not None and session.connected

    async def _until_cut(self, peer: _Key) -> None:
        while self._is_connected(peer):
            self._changed.clear()
            await self._changed.wait()

    # Incoming and outgoing connections.
    def _hello(self, lane: str, connection: str, known: str) -> Hello:
        name = self.config.name
        return Hello(MAGIC, VERSION, self.id, name, lane, connection, known, codecs())

    def _require_name(self, lane: Lane, hello: Hello) -> None:
        if not hello.bridge or not hello.machine:
            raise ProtocolError("HELLO.bridge: it has no name")
        if hello.bridge == self.id:
            raise ProtocolError("HELLO.bridge: this bridge connects to itself")
        names = lane.peer.names
        if lane.peer.certificate is not None and hello.machine not in names:
            raise ProtocolError(
                f"HELLO.machine: {hello.machine!r}, and the certificate is of {sorted(names)}"
            )

    def _connect(
        self, lane: Lane, hello: Hello, initiator: str, known: str, *, goes_on: bool
    ) -> Session:
        """Returns the session of a new connection: the existing session, or a new one.

        Args:
            initiator: the id of the bridge that connects.
            known: HELLO.known of that bridge.
            goes_on: both sides have this session.

        Raises:
            ProtocolError: the connection is refused.
        """
        if self._stopped:
            raise ProtocolError("this bridge was stopped")
        key = (hello.machine, hello.bridge)
        session = self._sessions.get(key)
        if session is not None and session.connected:
            # If HELLO names the session, the peer has lost the old connection, and this side has
            # not detected that yet.
            is_second = session.initiator == initiator and known != session.name
            if session.initiator < initiator or is_second:
                raise ProtocolError(
                    "HELLO.connection: there is another connection with this bridge"
                )
        if session is not None and not goes_on:
            if hello.connection == session.name:  # a replayed HELLO
                raise ProtocolError("HELLO.connection: a session has begun with it")
            self._end(session, "the other side has begun a new session")
            session = None
        if session is None:
            session = Session(
                hello.bridge,
                hello.machine,
                self.config.rules,
                self._participant,
                lambda: self._publishers,
                self._queues.entries,
                self._on_cut,
                self._served,
                PeerBudget(hello.machine, self._budget),
            )
            self._sessions[key] = session
            self._gone.remove(hello.machine)
        for other in list(self._sessions.values()):
            if other.machine == hello.machine and other is not session and not other.connected:
                self._end(other, "the bridge there was started again")
        self._log.info("%s: connected with %s", lane.peer.address, hello.machine)
        session.connect(lane, hello.connection, initiator)
        self._changed.set()
        return session

    def _on_cut(self, session: Session, why: str) -> None:
        self._log.warning("%s: connection lost: %s", session.machine, why)
        if session.ending is not None:
            session.ending.cancel()
        if any(one.machine == session.machine and one.connected for one in self._sessions.values()):
            return self._end(session, "the bridge there was started again")
        if session.refused == _MAX_REFUSED:  # the peer has another session of the same name
            return self._end(session, f"protocol errors have ended {_MAX_REFUSED} connections")
        session.ending = asyncio.get_running_loop().call_later(
            self.config.timeout, self._end, session, "no connection came back in time"
        )
        self._changed.set()

    def _end(self, session: Session, why: str) -> None:
        self._log.warning("%s: session ended: %s", session.machine, why)
        self._sessions.pop((session.machine, session.peer), None)
        session.end(why)
        if all(one.machine != session.machine for one in self._sessions.values()):
            self._gone.add(session.machine, session.address, why)
        self._changed.set()
        # The objects of a session form reference cycles, which keep the descriptors of its queue
        # mirrors open.
        asyncio.get_running_loop().call_later(_COLLECT_AFTER, gc.collect)


@dataclass
class _Greeting:
    """Waits for the reply to a HELLO."""

    bridge: Bridge
    session: Session | None = None  # for the bulk lane: the session of the express lane
    known: str = ""  # HELLO.known of this side
    peer: _Key = _NOBODY

    def __post_init__(self) -> None:
        self.met: asyncio.Future[Session] = asyncio.get_running_loop().create_future()

    def greeted(self, lane: Lane, hello: Hello) -> LaneOwner:
        bridge = self.bridge
        bridge._require_name(lane, hello)
        self.peer = (hello.machine, hello.bridge)
        if hello.lane != (EXPRESS if self.session is None else BULK):
            raise ProtocolError(f"HELLO.lane: the reply has {hello.lane!r}")
        if self.session is None:
            before = bridge._sessions.get(self.peer)
            if hello.known and (before is None or before.name != hello.known):
                raise ProtocolError("HELLO.known: this session has ended")
            goes_on = bool(hello.known)
            session = bridge._connect(lane, hello, bridge.id, self.known, goes_on=goes_on)
        else:
            session = self.session
            if hello.bridge != session.peer or hello.connection != session.connection:
                raise ProtocolError("HELLO.connection: another bridge has answered")
            session.add_bulk(lane)
        if not self.met.done():
            self.met.set_result(session)
        return session

    def gone(self, lane: Lane, why: str) -> None:
        if lane.silent and lane.peer.certificate is not None:
            why = f"{why}: {CLOSED_IN_TLS}"
        if not self.met.done():
            self.met.set_exception(ProtocolError(why))
