"""Channels: messages in both directions between two bridges, for requests and replies."""

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

# Flags in the stream of a frame: which side sends. The other bits are the channel's number.
BY_OPENER, BY_ACCEPTOR = 1 << 62, 1 << 63
NUMBER = BY_OPENER - 1

_NOTHING = Limits(0, 0, 0, 0)
_CLOSE = "close"  # the verb of the last message of a side
LOOK_AGAIN = 0.02  # seconds between tries: there is no notification of free memory


class _Words(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The fields of a message, without its tensors."""

    verb: str
    arguments: list[int | str]
    fields: bytes


_decoder = msgspec.msgpack.Decoder(_Words)


class ChannelMessage:
    """A message received through a channel: a verb, its arguments, fields and tensors."""

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
        """Returns the arguments: `count` numbers from 0 to 2^63 - 1.

        Raises:
            ProtocolError: there are fewer or more arguments, or other ones.
        """
        numbers = [one for one in self.arguments if isinstance(one, int) and 0 <= one < 1 << 63]
        if len(numbers) != count or len(self.arguments) != count:
            raise ProtocolError(f"{self.verb}: expected {count} numbers: {self.arguments}")
        return numbers

    def try_outgoing(self) -> _core.Outgoing | None:
        """Returns the tensors in memory of the bus, to be passed on; None if no memory is free.

        Raises:
            OutOfMemory: the tensors are larger than the budget.
            ProtocolError: the tensors are invalid.
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
        """Like try_outgoing(), but waits while no memory is free."""
        while (found := self.try_outgoing()) is None:
            await asyncio.sleep(LOOK_AGAIN)
        return found


class Channel:
    """Messages in both directions between this bridge and one peer, in order.

    Each message arrives exactly once while the session lives, over any number of connections.

    Args:
        link: to the peer.
        number: given by the opener.
        kind: selects the function that serves the channel on the side that did not open it.
        key: the object of the channel, for example a queue.
        on_over: called when the channel has ended in both directions.
        opened_here: opened by this bridge; otherwise by the peer.
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
        self._why: str | None = None  # the reason when the channel is over
        self._closing = False
        self._resumed = True  # on this connection
        self._next = 0  # number of the next message
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
        """Queues a message, which is sent when the peer has room. Does not block.

        Returns the number of the message; the first has 0.

        Args:
            verb, arguments: the content.
            fields: further content, as bytes.
            sample: its tensors are sent; its lease is kept until they have arrived.

        Raises:
            Closed: the channel is over, or was closed here.
            Unsupported: the content exceeds 1 MiB, or a tensor is on a GPU.
        """
        if self._why is not None or self._closing:
            raise Closed(self._why or "this channel is closed")
        words = msgspec.msgpack.encode(_Words(verb, list(arguments), fields))
        number = self._next
        self._sending.take(number, OutgoingMessage(words, sample))
        self._next += 1
        return number

    def may_have_arrived(self, message: int) -> bool:
        """Returns True if the message with this number was sent completely on any connection."""
        return message < self._sending.written

    async def receive(self) -> ChannelMessage:
        """Waits for the next message, and returns it.

        In a channel that the peer has opened, it first waits until the peer has taken most of the
        sent messages.

        Raises:
            Closed: the peer has closed the channel, or the session has ended; the text says why.
            ProtocolError: the message is invalid.
        """
        if not self.opened_here:  # the opener does not wait: both sides could wait for each other
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
        """Sends the last message of this side. Messages sent before still arrive."""
        if self._why is None and not self._closing:
            self.send(_CLOSE, why)
            self._closing = True

    def abort(self) -> None:
        """Ends the channel at once. Messages under way are lost."""
        self._on_over(self)
        self.end("")

    @property
    def over(self) -> bool:
        """True if the channel has ended in both directions."""
        return self._why is not None

    # For the session.
    def open(self) -> Frame:
        """Returns the frame that the opener sends on a new connection, with its limits."""
        limits = self._receiving.limits()
        return Open(self.kind, self.key, limits.next, limits.published, limits.samples, limits.cost)

    def credit(self) -> Credit:
        return self._receiving.credit()

    def lose_connection(self) -> None:
        self._resumed = False
        self._receiving.lose_lanes()
        self._sending.lose_connection()

    def on_credit(self, limits: Limits) -> None:
        """Takes new limits. The first ones on a connection say where to continue."""
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
        """Ends the channel in both directions; does not notify the peer."""
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
