"""The channels of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tensorbus._base.errors import Closed, Error, ProtocolError
from tensorbus.bridge._shortage import SHORTAGES, require_shortage
from tensorbus.bridge._streams.channel import BY_ACCEPTOR, BY_OPENER, NUMBER, Channel
from tensorbus.bridge._streams.link import Link
from tensorbus.bridge._streams.stream import Limits
from tensorbus.bridge._wire.frames import Begin, Credit, Open
from tensorbus.bridge._wire.frames import Closed as ClosedFrame

_MAX_CHANNELS = 65_536  # of one peer

# Serves a channel that the peer has opened; the channel is closed when it returns or raises.
Serve = Callable[[Channel], Awaitable[None]]


class Channels:
    """Opens channels to the peer, and serves the channels that the peer opens.

    Args:
        link: to the peer.
        served: the functions that serve channels, by kind.
        on_error: called with a ProtocolError of the peer.
    """

    def __init__(
        self, link: Link, served: Mapping[str, Serve], on_error: Callable[[ProtocolError], None]
    ) -> None:
        self._link = link
        self._served = served
        self._on_error = on_error
        self._channels: dict[int, Channel] = {}  # by the stream of received frames
        self._newest = 0  # number of the newest channel opened here
        self._newest_of_peer = 0  # number of the newest channel opened by the peer
        self._opened_again: set[int] = set()  # streams that the peer opened on this connection
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, kind: str, key: str) -> Channel:
        """Opens a channel, also while there is no connection."""
        self._newest += 1
        channel = Channel(self._link, self._newest, kind, key, self._forget, opened_here=True)
        self._channels[self._newest | BY_ACCEPTOR] = channel
        self._link.send(channel.open(), self._newest | BY_OPENER)
        return channel

    def run(self, task: Awaitable[None], channel: Channel) -> None:
        """Runs a task, and then closes its channel: at once if the task has raised an error."""
        running = asyncio.ensure_future(self._run(task, channel))
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    def connected(self) -> None:
        """Opens the channels of this side again on a new connection."""
        self._opened_again.clear()
        for channel in self._channels.values():
            if channel.opened_here:
                self._link.send(channel.open(), channel.number | BY_OPENER)

    def disconnected(self) -> None:
        for channel in self._channels.values():
            channel.lose_connection()

    def drop_unopened(self) -> None:
        """Ends the peer's channels that were not opened on this connection.

        Called when the peer has named all its channels.
        """
        for stream, channel in list(self._channels.items()):
            if not channel.opened_here and stream not in self._opened_again:
                self._remove(stream)
                channel.end("the other side has dropped the channel")

    def close(self, why: str) -> None:
        for channel in self._channels.values():
            channel.end(why)
        self._channels.clear()
        for task in self._tasks:
            task.cancel()

    # Frames.
    def on_open(self, told: Open, stream: int) -> None:
        number = stream & NUMBER
        if stream != number | BY_OPENER or stream in self._opened_again:
            raise ProtocolError(f"OPEN: of the channel {stream:#x}")
        channel = self._channels.get(stream)
        if channel is None:
            if number <= self._newest_of_peer:  # this channel is over
                return self._link.send(ClosedFrame(""), number | BY_ACCEPTOR)
            self._newest_of_peer = number
            channel = self._accept(number, told)
            if channel is None:
                return
        self._opened_again.add(stream)
        self._link.send(channel.credit(), number | BY_ACCEPTOR)
        channel.on_credit(Limits(told.next, told.published, told.samples, told.cost))

    def on_credit(self, credit: Credit, stream: int) -> None:
        channel = self._found(stream, "CREDIT")
        if channel is not None:
            channel.on_credit(Limits(credit.next, credit.published, credit.samples, credit.cost))

    def on_closed(self, closed: ClosedFrame, stream: int) -> None:
        channel = self._found(stream, "CLOSED")
        if channel is not None:
            self._remove(stream)
            channel.end(closed.text)

    def on_begin(self, lane: str, begin: Begin, stream: int) -> None:
        channel = self._found(stream, "BEGIN")
        if channel is not None:
            channel.on_begin(lane, begin)

    def chunk_target(self, lane: str, stream: int, length: int) -> memoryview | None:
        """Returns the buffer for the bytes of a CHUNK; None if the channel is over."""
        channel = self._found(stream, "CHUNK")
        return None if channel is None else channel.chunk_target(lane, length)

    def on_chunk(self, lane: str, stream: int, length: int) -> None:
        channel = self._found(stream, "CHUNK")
        if channel is not None:
            channel.on_chunk(lane, length)

    def _accept(self, number: int, told: Open) -> Channel | None:
        serve = self._served.get(told.kind)
        if serve is None or len(self._channels) >= _MAX_CHANNELS:
            why = "too many" if serve else f"this bridge serves no {told.kind!r}"
            self._link.send(ClosedFrame(why), number | BY_ACCEPTOR)
            return None
        self._link.budget.remember(told.kind, told.key)
        channel = Channel(self._link, number, told.kind, told.key, self._forget, opened_here=False)
        self._channels[number | BY_OPENER] = channel
        self.run(serve(channel), channel)
        return channel

    async def _run(self, task: Awaitable[None], channel: Channel) -> None:
        why = ""
        try:
            await task
            channel.close()  # messages sent before still arrive
            while True:
                await channel.receive()
        except Closed:
            pass
        except ProtocolError as error:
            self._on_error(error)
        except (Error, *SHORTAGES) as error:
            if not isinstance(error, Error):
                require_shortage(error)
            why = str(error) or "no memory is left"
            self._link.budget.log.warning("%s of %s: %s", channel.kind, channel.machine, why)
        finally:
            self._forget(channel, why)
            channel.end(why)

    # Removes the channel. Notifies the peer unless it was removed before.
    def _forget(self, channel: Channel, why: str = "") -> None:
        ours, theirs = (BY_OPENER, BY_ACCEPTOR) if channel.opened_here else (BY_ACCEPTOR, BY_OPENER)
        if self._remove(channel.number | theirs):
            self._link.send(ClosedFrame(why), channel.number | ours)

    # Returns False if it was removed before.
    def _remove(self, stream: int) -> bool:
        self._opened_again.discard(stream)
        channel = self._channels.pop(stream, None)
        if channel is not None and not channel.opened_here:
            self._link.budget.forget(channel.kind, channel.key)
        return channel is not None

    # Returns None if the channel is over: late frames may come, as the lanes have no common order.
    def _found(self, stream: int, what: str) -> Channel | None:
        channel = self._channels.get(stream)
        if channel is None:
            newest = self._newest if stream & BY_ACCEPTOR else self._newest_of_peer
            if not 0 < stream & NUMBER <= newest:
                raise ProtocolError(f"{what}: there is no channel {stream:#x}")
        return channel
