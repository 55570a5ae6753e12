"""Services of other machines, for clients of this one: the side of a channel that is asked."""

from __future__ import annotations

import asyncio
import logging

from tensorbus import _core
from tensorbus._base.errors import Closed, Error, OutOfMemory, ProtocolError, Unsupported
from tensorbus._queues.pending import taken
from tensorbus._services.answers import Answers
from tensorbus._services.calls import error_item
from tensorbus.bridge._queues.lists import public_name
from tensorbus.bridge._services.calls import MOST_CALLS, reply_of
from tensorbus.bridge._streams.channel import Channel, ChannelMessage
from tensorbus.bridge._streams.channels import Channels
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._wire.frames import QueueEntry

logger = logging.getLogger("tensorbus.bridge")

_AGAIN_AFTER = 1.0  # seconds, when a mirror could not be made
_PAUSE = 0.01  # seconds until the next look when requests cannot be taken


class ServiceMirrors:
    """The services of a peer's machine, on this one.

    Args:
        link: to the peer.
        channels: of the session.
    """

    def __init__(self, link: Link, channels: Channels) -> None:
        self._link = link
        self._channels = channels
        self._mirrors: dict[str, ServiceMirror] = {}  # by key
        self._again: dict[str, asyncio.TimerHandle] = {}  # services that are tried again

    def status(self) -> list[str]:
        """The names of the services."""
        return sorted({public_name(mirror.name) for mirror in self._mirrors.values()})

    def on_queues(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Services of the peer's machine have come and gone."""
        for key in removed:
            mirror = self._mirrors.pop(key, None)
            if mirror is not None:
                mirror.service_is_gone()
            if key in self._again:
                self._again.pop(key).cancel()
        for entry in added:
            self._mirror(entry)

    def close(self) -> None:
        """No mirror is made any more; those that there are end with their channels."""
        for timer in self._again.values():
            timer.cancel()
        self._again.clear()

    def _mirror(self, entry: QueueEntry) -> None:
        is_first = self._again.pop(entry.key, None) is None
        channel = self._channels.open("service", entry.key)
        try:
            mirror = ServiceMirror(entry.name, channel, self._link.participant)
        except Error as error:
            if is_first:
                logger.warning("%s of %s: %s", entry.name, self._link.machine, error)
            channel.abort()
            if isinstance(error, OutOfMemory):
                loop = asyncio.get_running_loop()
                self._again[entry.key] = loop.call_later(_AGAIN_AFTER, self._mirror, entry)
            return
        self._mirrors[entry.key] = mirror
        self._channels.run(mirror.run(), channel)


class ServiceMirror:
    """A queue of this machine for the requests to one process of another that offers a service.

    Args:
        name: of the service's queue.
        channel: to it.
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
        self._calls: dict[int, str] = {}  # under way, by number: where the answer is to go
        self._newest = 0
        self._room = asyncio.Semaphore(MOST_CALLS)
        self._is_gone = False
        self._requests: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until the service or the session has ended. Clients that still wait get `Closed` then."""
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
                    self._requests = None  # it knows this object: a cycle would keep descriptors
                await self._answers.finish()  # who hears first of the end takes them for lost
            finally:
                self._queue.close()

    def service_is_gone(self) -> None:
        """The peer has said so. What it has answered may still be under way."""
        self._is_gone = True
        self._end_if_gone()

    def _end_if_gone(self) -> None:
        if self._is_gone and self._requests is not None:
            self._requests.cancel()
            if not self._calls:
                self._channel.close()

    async def _on_message(self, message: ChannelMessage) -> None:
        if message.verb != "answer":
            raise ProtocolError(f"a channel of a service: {message.verb!r}")
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
        while True:
            await self._room.acquire()
            try:
                found = await taken(self._queue.start_get())
                assert isinstance(found, _core.Sample)
                self._call(found)
                del found
            except Closed:
                return
            except Error as error:
                self._room.release()
                self._warn(error)
                await asyncio.sleep(_PAUSE)

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
        logger.warning("%s of %s: %s", self.name, self._channel.machine, error)
