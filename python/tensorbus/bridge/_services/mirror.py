"""Mirrors of services of other machines, for clients of this machine."""

from __future__ import annotations

import asyncio

from tensorbus import _core
from tensorbus._base.errors import Closed, Error, OutOfMemory, ProtocolError, Unsupported
from tensorbus._queues.pending import result_of
from tensorbus._services.answers import Answers
from tensorbus._services.calls import error_item
from tensorbus.bridge._queues.lists import public_name
from tensorbus.bridge._services.calls import MAX_CALLS, reply_of
from tensorbus.bridge._shortage import (
    LONGEST_WAIT,
    WHEN_ROOM,
    Again,
    Backoff,
    is_shortage,
    make_all,
)
from tensorbus.bridge._streams.channel import Channel, ChannelMessage
from tensorbus.bridge._streams.channels import Channels
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._wire.frames import QueueEntry

_OF_MIRROR = 2  # descriptors of a mirror


class ServiceMirrors:
    """The service mirrors of a session: the peer's services, on this machine.

    Args:
        link: to the peer.
        channels: of the session.
    """

    def __init__(self, link: Link, channels: Channels) -> None:
        self._link = link
        self._channels = channels
        self._mirrors: dict[str, ServiceMirror] = {}  # by key
        self._there: dict[str, QueueEntry] = {}  # queues of services of the peer, by key
        self._unmade: dict[str, QueueEntry] = {}  # not mirrored yet
        self._make_all = Again(
            f"services of {link.machine} wait",
            lambda: make_all(self._unmade, self._make),
            link.budget.log.warning,
        )

    def status(self) -> list[str]:
        """Returns the names of the mirrored services."""
        return sorted({public_name(mirror.name) for mirror in self._mirrors.values()})

    def on_queues(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Services of the peer's machine were added or removed."""
        for key in removed:
            mirror = self._mirrors.pop(key, None)
            if mirror is not None:
                mirror.service_is_gone()
            self._there.pop(key, None)
            self._unmade.pop(key, None)
        for entry in added:
            self._there[entry.key] = self._unmade[entry.key] = entry
        if added:
            self._make_all()

    def try_soon(self) -> None:
        """Makes waiting mirrors soon. Called when the peer has given something back."""
        if self._make_all.due:
            self._make_all.within(WHEN_ROOM)

    def close(self) -> None:
        """Makes no more mirrors. Existing mirrors end with their channels."""
        self._make_all.cancel()
        self._there.clear()
        self._unmade.clear()
        self._mirrors.clear()

    def _make(self, entry: QueueEntry) -> None:
        budget = self._link.budget
        budget.descriptors.take(_OF_MIRROR)
        channel = self._channels.open("service", entry.key)
        try:
            mirror = ServiceMirror(entry.name, channel, self._link.participant)
        except BaseException as error:
            channel.abort()
            budget.descriptors.give_back(_OF_MIRROR)
            if is_shortage(error) or not isinstance(error, Error):
                raise
            budget.log.warning("%s of %s: %s", entry.name, self._link.machine, error)
            return
        self._mirrors[entry.key] = mirror
        self._channels.run(self._run(mirror, entry), channel)

    async def _run(self, mirror: ServiceMirror, entry: QueueEntry) -> None:
        try:
            await mirror.run()
        finally:
            self._link.budget.descriptors.give_back(_OF_MIRROR)
            if self._mirrors.pop(entry.key, None) is not None:
                asyncio.get_running_loop().call_later(LONGEST_WAIT, self._make_again, entry)

    # Makes the mirror again if the peer has ended the channel but still names the service.
    def _make_again(self, entry: QueueEntry) -> None:
        if self._there.get(entry.key) is entry and entry.key not in self._mirrors:
            self.on_queues([entry], [])


class ServiceMirror:
    """A local queue for requests to one process of another machine that offers a service.

    Args:
        name: of the service's queue.
        channel: to the service.
        participant: this machine's bridge.
    """

    def __init__(self, name: str, channel: Channel, participant: _core.Participant) -> None:
        self.name = name
        self._channel = channel
        self._queue = _core.Queue(
            maxsize=0,
            redeliver=False,
            shared=False,
            name=name,
            max_bytes=0,
            participant=participant,
        )
        self._answers = Answers(participant.domain, self._warn)
        self._calls: dict[int, str] = {}  # addresses for the answers, by number of the call
        self._newest = 0
        self._room = asyncio.Semaphore(MAX_CALLS)
        self._is_gone = False
        self._requests: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Runs until the service or the session has ended. Pending calls then raise `Closed`."""
        try:
            self._requests = asyncio.ensure_future(self._take_requests())
            self._end_if_gone()
            while True:
                await self._on_message(await self._channel.receive())
                self._end_if_gone()
        finally:
            try:
                if self._requests is not None:
                    self._requests.cancel()
                    self._requests = None  # refers to this object: a cycle would keep descriptors
                # Before close(): a client that detects the end before its answer has arrived
                # considers the answer lost.
                await self._answers.finish()
            finally:
                self._queue.close()

    def service_is_gone(self) -> None:
        """Called when the peer has removed the service. Its last answers may still be under way."""
        self._is_gone = True
        self._end_if_gone()

    def _end_if_gone(self) -> None:
        if self._is_gone and self._requests is not None:
            self._requests.cancel()
            if not self._calls:
                self._channel.close()

    async def _on_message(self, message: ChannelMessage) -> None:
        if message.verb != "answer":
            raise ProtocolError(f"the channel of a service: {message.verb!r} is unknown")
        (number,) = message.numbers(1)
        reply = self._calls.pop(number, None)
        if reply is None:
            raise ProtocolError(f"an answer to the call {number}, which is not under way")
        self._room.release()
        try:
            item = (await message.outgoing(), message.fields)
        except OutOfMemory as error:
            item = error_item(error)
        self._give(reply, item)

    async def _take_requests(self) -> None:
        log = self._channel.budget.log
        what = f"requests to {self.name} of {self._channel.machine} wait"
        backoff = Backoff(what, log.warning)
        while True:
            await self._room.acquire()
            try:
                found = await result_of(self._queue.start_get())
                assert isinstance(found, _core.Sample)
                backoff.succeeded()
                self._call(found)
                del found
            except Closed:
                return
            except (Error, MemoryError, OSError) as error:
                self._room.release()
                await asyncio.sleep(backoff.failed(error))

    def _call(self, request: _core.Sample) -> None:
        reply = reply_of(request.fields)
        number = self._newest + 1
        try:
            self._channel.send("call", number, fields=request.fields, sample=request)
        except Unsupported as error:
            self._room.release()
            return self._give(reply, error_item(error))
        self._newest = number
        self._calls[number] = reply

    def _give(self, reply: str, item: tuple[_core.Outgoing, bytes]) -> None:
        try:
            self._answers.give(reply, item)
        except Error as error:
            self._warn(error)

    def _warn(self, error: Error) -> None:
        log = self._channel.budget.log
        log.warning("%s of %s: %s", self.name, self._channel.machine, error)
