"""The queue mirrors of a session: the peer's queues, on this machine."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from tensorbus import _core
from tensorbus._base.errors import Closed, Error, OutOfMemory, ProtocolError
from tensorbus.bridge._queues.exports import KIND
from tensorbus.bridge._queues.mirror import QueueMirror
from tensorbus.bridge._shortage import (
    FIRST_WAIT,
    LONGEST_WAIT,
    WHEN_ROOM,
    Again,
    Log,
    Watch,
    is_shortage,
    make_all,
)
from tensorbus.bridge._streams.channel import LOOK_AGAIN, Channel, ChannelMessage
from tensorbus.bridge._streams.channels import Channels
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._wire.frames import QueueEntry

_OF_MIRROR = 1  # descriptors of a mirror


class QueueMirrors:
    """The mirrors of queues of a session.

    Args:
        link: to the peer.
        channels: of the session.
    """

    def __init__(self, link: Link, channels: Channels) -> None:
        self._link = link
        self._channels = channels
        self._there: dict[str, QueueEntry] = {}  # queues of the peer, by key
        self._unmade: dict[str, QueueEntry] = {}  # not mirrored yet
        self._nameless: set[str] = set()  # keys of these whose name is in use on this machine
        self._mirrors: dict[str, _LiveMirror] = {}
        self._make_all = Again(
            f"queues of {link.machine} wait", self._look, link.budget.log.warning
        )

    def on_queues(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Queues of the peer's machine were added or removed."""
        for key in removed:  # an existing mirror ends with its channel, after all messages
            self._there.pop(key, None)
            self._unmade.pop(key, None)
            self._nameless.discard(key)
        for entry in added:
            self._there[entry.key] = self._unmade[entry.key] = entry
        if added:
            self._make_all()

    def look(self) -> None:
        """Makes waiting mirrors: queues of this machine may be gone, which makes names free."""
        if self._unmade:
            self._make_all.within(FIRST_WAIT if self._make_all.due else 0)

    def try_soon(self) -> None:
        """Makes waiting mirrors soon. Called when the peer has given something back."""
        if self._make_all.due:
            self._make_all.within(WHEN_ROOM)

    def close(self) -> None:
        """Ends all mirrors as if their processes had died."""
        self._make_all.cancel()
        self._there.clear()
        self._unmade.clear()
        for mirror in list(self._mirrors.values()):
            mirror.close()
        self._mirrors.clear()

    def status(self) -> list[str]:
        """Returns the names of the mirrored queues."""
        return sorted(mirror.entry.name for mirror in self._mirrors.values())

    def _look(self) -> bool:
        taken = {info.name for info in _core.list_queues(self._link.participant)}
        nameless = {key: one for key, one in self._unmade.items() if one.name in taken}
        for key, entry in nameless.items():
            del self._unmade[key]
            if key not in self._nameless:
                self._nameless.add(key)
                self._warn(entry, "this machine has a queue of that name")
        try:
            return make_all(self._unmade, self._make)
        finally:
            self._unmade.update(nameless)

    def _make(self, entry: QueueEntry) -> None:
        link = self._link
        link.budget.descriptors.take(_OF_MIRROR)
        try:
            local = _core.MirrorQueue(
                name=entry.name,
                maxsize=entry.maxsize,
                redeliver=entry.redeliver,
                max_bytes=entry.max_bytes,
                origin=(link.machine, entry.key),
                participant=link.participant,
            )
        except BaseException as error:
            link.budget.descriptors.give_back(_OF_MIRROR)
            # A TypeError means that a number is out of range.
            if is_shortage(error) or not isinstance(error, (Error, TypeError)):
                raise
            return self._warn(entry, str(error))
        self._nameless.discard(entry.key)
        channel = self._channels.open(KIND, entry.key)
        log = link.budget.log.warning
        mirror = self._mirrors[entry.key] = _LiveMirror(entry, local, channel, log)
        self._channels.run(self._run(mirror), channel)

    async def _run(self, mirror: _LiveMirror) -> None:
        try:
            await mirror.run()
        finally:
            mirror.close()
            self._link.budget.descriptors.give_back(_OF_MIRROR)
            if self._mirrors.pop(mirror.entry.key, None) is not None:
                self.look()
                loop = asyncio.get_running_loop()
                loop.call_later(LONGEST_WAIT, self._make_again, mirror.entry)

    # Makes the mirror again if the peer has ended the channel but still names the queue.
    def _make_again(self, entry: QueueEntry) -> None:
        if self._there.get(entry.key) is entry and entry.key not in self._mirrors:
            self._unmade[entry.key] = entry
            self.look()

    def _warn(self, entry: QueueEntry, why: str) -> None:
        self._link.budget.log.warning("%s of %s: %s", entry.name, self._link.machine, why)


class _LiveMirror:
    """The mirror of one queue: connects its channel with the programs of this machine."""

    def __init__(
        self, entry: QueueEntry, local: _core.MirrorQueue, channel: Channel, log: Log
    ) -> None:
        self.entry = entry
        self._log = log
        self._local = local
        self._channel = channel
        self._mirror = QueueMirror(local, channel)
        # Items that are not offered yet, and answers that must follow them.
        self._come: deque[ChannelMessage] = deque()
        self._offering: asyncio.TimerHandle | None = None
        self._closed = False
        self._watch = Watch(local.fileno, self._look)

    def close(self) -> None:
        """Closes the mirror: pending calls raise Closed."""
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        if self._offering is not None:
            self._offering.cancel()
        self._come.clear()
        self._local.close()

    async def run(self) -> None:
        """Takes the messages of the channel until it is over.

        Raises:
            Closed: the channel is over.
            ProtocolError: a message of the peer is invalid.
        """
        while True:
            message = await self._channel.receive()
            if message.verb == "item":
                self._mirror.on_item(*message.numbers(1))
            elif not (self._come and self._is_of_poll(message)):
                self._take(message)
                continue
            self._come.append(message)
            if len(self._come) == 1:
                self._take_all()

    def _look(self) -> None:
        with suppress(Closed):  # the channel is over; the mirror ends soon
            self._mirror.look()

    def _is_of_poll(self, message: ChannelMessage) -> bool:
        return message.verb == "answer" and self._mirror.is_poll(message.numbers(6)[0])

    def _take_again(self) -> None:
        try:
            self._take_all()
        except Error as error:
            self._log("%s: %s", self.entry.name, error)
            self._channel.abort()

    # Takes waiting messages in order while memory is free.
    def _take_all(self) -> None:
        self._offering = None
        offered = False
        while self._come:
            message = self._come[0]
            if message.verb != "item":
                self._take(message)
            elif self._offer(message):
                offered = True
            else:
                loop = asyncio.get_running_loop()
                self._offering = loop.call_later(LOOK_AGAIN, self._take_again)
                break
            self._come.popleft()
        if offered:
            self._look()

    # Returns False if no memory is free now.
    def _offer(self, message: ChannelMessage) -> bool:
        (tag,) = message.numbers(1)
        try:
            outgoing = message.try_outgoing()
        except OutOfMemory as error:
            self._log("%s: an item is lost: %s", self.entry.name, error)
            self._mirror.spoilt(tag)
            return True
        try:
            if outgoing is not None:
                self._local.offer(outgoing, message.fields, tag)
                self._mirror.offered(tag)
                return True
        except OutOfMemory:
            pass
        if self._mirror.demand:
            return False
        self._mirror.refused(tag)
        return True

    def _take(self, message: ChannelMessage) -> None:
        mirror, verb = self._mirror, message.verb
        if verb == "answer":
            id, outcome, first, second, third, fourth = message.numbers(6)
            mirror.on_answer(id, outcome, (first, second, third, fourth))
        elif verb == "denied":
            id, code, text = _denied(message)
            mirror.on_denied(id, code, text)
        elif verb == "over":
            mirror.on_over(*message.numbers(1))
        else:
            raise ProtocolError(f"the channel of a queue: {verb!r} is unknown")


def _denied(message: ChannelMessage) -> tuple[int, int, str]:
    if len(message.arguments) == 3:
        id, code, text = message.arguments
        if isinstance(id, int) and isinstance(code, int) and isinstance(text, str):
            return id, code, text
    raise ProtocolError(f"denied: {message.arguments}")
