"""Channels: messages in both directions between two bridges, for what is asked and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from tensorbus import _core
from tensorbus._base.errors import Closed, OutOfMemory, ProtocolError
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._streams.message import IncomingMessage, OutgoingMessage
from tensorbus.bridge._streams.receiving_end import ReceivingEnd
from tensorbus.bridge._streams.sending_end import SendingEnd
from tensorbus.bridge._streams.stream import Limits
from tensorbus.bridge._wire.frames import Begin, Credit, Frame, Open

# The stream of a frame: the number that the opener gave the channel, and which side sends.
BY_OPENER, BY_ACCEPTOR = 1 << 62, 1 << 63
NUMBER = BY_OPENER - 1

_NOTHING = Limits(0, 0, 0, 0)
_CLOSE = "close"  # the last message of a side
LOOK_AGAIN = 0.02  # seconds; of memory nobody tells


class _Words(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The fields of a message: what it says, beside its tensors."""

    verb: str
    arguments: list[int | str]
    fields: bytes


_decoder = msgspec.msgpack.Decoder(_Words)


class ChannelMessage:
    """What has come through a channel: a verb, its arguments, and what a sample is made of."""

    def __init__(self, incoming: IncomingMessage) -> None:
        try:
            words = _decoder.decode(incoming.begin.fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"BEGIN.fields of a channel: {error}") from None
        self.verb = words.verb
        self.arguments = words.arguments
        self.fields = words.fields
        self._incoming = incoming

    def numbers(self, count: int) -> list[int]:
        """Its arguments, which are so many numbers from 0 to 2^63 - 1.

        Raises:
            ProtocolError: they are not.
        """
        numbers = [one for one in self.arguments if isinstance(one, int) and 0 <= one < 1 << 63]
        if len(numbers) != count or len(self.arguments) != count:
            raise ProtocolError(f"{self.verb}: expected {count} numbers: {self.arguments}")
        return numbers

    def try_outgoing(self) -> _core.Outgoing | None:
        """Its tensors, in memory of the bus, to be handed on. None: there is no memory now.

        Raises:
            OutOfMemory: they do not fit into the budget at all.
            ProtocolError: they are none.
        """
        try:
            return self._incoming.outgoing()
        except OutOfMemory:
            if self._incoming.has_no_memory:
                raise
            return None
        except Exception as error:
            raise ProtocolError(f"BEGIN.tensors: {error}") from None

    async def outgoing(self) -> _core.Outgoing:
        """The same. Waits while there is no memory."""
        while (found := self.try_outgoing()) is None:
            await asyncio.sleep(LOOK_AGAIN)
        return found


class Channel:
    """Messages of one purpose with one peer. Both sides send, in order.

    Each message arrives exactly once while the session lives, over any number of connections.

    Args:
        link: to the peer.
        number: that the opener gave it.
        kind: what it is for.
        key: what it is about.
        opened_here: or by the peer.
        on_over: called when nothing more comes or goes.
    """

    def __init__(
        self,
        link: Link,
        number: int,
        kind: str,
        key: str,
        on_over: Callable[[Channel], None],
        *,
        opened_here: bool,
    ) -> None:
        self.number = number
        self.kind = kind
        self.key = key
        self.machine = link.machine
        self.budget = link.budget
        self.opened_here = opened_here
        self._link = link
        self._on_over = on_over
        self._why: str | None = None  # it is over
        self._closing = False
        self._resumed = True  # on this connection
        self._next = 0  # message
        self._come = asyncio.Event()
        participant = link.participant
        self._receiving = ReceivingEnd(
            self._say,
            lambda size: _memory(size, participant),
            participant.arena["budget_bytes"],
            reliable=True,
        )
        self._sending = SendingEnd(
            number | (BY_OPENER if opened_here else BY_ACCEPTOR),
            _NOTHING,
            0,
            link.pump.take_turn,
            lambda: None,
        )

    def send(
        self,
        verb: str,
        *arguments: int | str,
        fields: bytes = b"",
        sample: _core.Sample | None = None,
    ) -> int:
        """Sends a message when the peer has room for it; it waits for nothing.

        Returns the number of the message, the first has 0.

        Args:
            verb, arguments: what it says.
            fields: and more of that, as bytes.
            sample: whose tensors go along; its lease is kept until they have arrived.

        Raises:
            Closed: the channel is over, or was closed here.
            Unsupported: the words have more than 1 MiB, or a tensor is on a GPU.
        """
        if self._why is not None or self._closing:
            raise Closed(self._why or "this channel is closed")
        words = msgspec.msgpack.encode(_Words(verb, list(arguments), fields))
        number = self._next
        self._sending.take(number, OutgoingMessage(words, sample))
        self._next += 1
        return number

    def may_have_arrived(self, message: int) -> bool:
        """Whether the message of this number was sent to its end, on any connection."""
        return message < self._sending.written

    async def receive(self) -> ChannelMessage:
        """The next message. If the peer has opened the channel, it comes when the peer has taken
        most of what was sent.

        Raises:
            Closed: the peer has closed the channel, or the session has ended; the text says why.
            ProtocolError: the peer wrote nonsense.
        """
        if not self.opened_here:  # or both sides could wait for each other
            await self._sending.settled()
        while not self._receiving.ready:
            if self._why is not None:
                raise Closed(self._why)
            self._come.clear()
            await self._come.wait()
        message = ChannelMessage(self._receiving.ready[0].payload)
        self._receiving.taken()
        if message.verb == _CLOSE:
            why = str(message.arguments[0]) if message.arguments else ""
            self._on_over(self)
            self.end(why)
            raise Closed(why)
        return message

    def close(self, why: str = "") -> None:
        """Says the last word: what was sent before still arrives."""
        if self._why is None and not self._closing:
            self.send(_CLOSE, why)
            self._closing = True

    def abort(self) -> None:
        """Ends it at once: what is under way is lost."""
        self._on_over(self)
        self.end("")

    @property
    def over(self) -> bool:
        """Nothing more comes or goes."""
        return self._why is not None

    # For the session.
    def open(self) -> Frame:
        """What the opener says on a new connection: how much may come."""
        limits = self._receiving.limits()
        return Open(self.kind, self.key, limits.next, limits.published, limits.samples, limits.cost)

    def credit(self) -> Credit:
        return self._receiving.credit()

    def lose_connection(self) -> None:
        self._resumed = False
        self._receiving.lose_lanes()
        self._sending.lose_connection()

    def on_credit(self, limits: Limits) -> None:
        """The first one on a connection says where to go on."""
        if self._resumed:
            self._sending.credit(limits)
        else:
            self._resumed = True
            self._sending.resume(limits)

    def on_begin(self, lane: str, begin: Begin) -> None:
        if begin.sequence != begin.index:
            raise ProtocolError(f"BEGIN.sequence: {begin.sequence} of the message {begin.index}")
        if self._receiving.begin(lane, begin):
            self._come.set()

    def chunk_target(self, lane: str, length: int) -> memoryview:
        return self._receiving.chunk_target(lane, length)

    def on_chunk(self, lane: str, length: int) -> None:
        if self._receiving.on_chunk(lane, length):
            self._come.set()

    def end(self, why: str) -> None:
        """Nothing more comes or goes."""
        if self._why is None:
            self._why = why or "the channel was closed"
            self._receiving.close()
            self._sending.close()
            self._come.set()

    def _say(self) -> None:
        self._link.send(self.credit(), self._sending.stream)


def _memory(size: int, participant: _core.Participant) -> memoryview:
    memory: Any = _core.empty("uint8", [size], False, participant)
    return memoryview(memory)
