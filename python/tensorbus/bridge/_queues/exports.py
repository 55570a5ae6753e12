"""The exports of queues: queues of this machine that programs of other machines use."""

from __future__ import annotations

from contextlib import suppress

from tensorbus._base.errors import Closed, InvalidArgument, ProtocolError
from tensorbus.bridge._queues.export import QueueExport
from tensorbus.bridge._queues.home import QueueHome
from tensorbus.bridge._queues.lists import LocalQueues, public_name
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._streams.channel import Channel, ChannelMessage

KIND = "queue"  # of a channel, whose key is the key of the queue


class QueueExports:
    """Serves channels that peers open for queues.

    Args:
        local: the queues of this machine.
        rules: what may cross.
    """

    def __init__(self, local: LocalQueues, rules: Rules) -> None:
        self._local = local
        self._rules = rules
        self._channels: dict[Channel, str] = {}  # the keys of the queues, by channel

    def on_gone(self, keys: list[str]) -> None:
        """Closes the channels of queues that are gone from this machine."""
        for channel, key in self._channels.items():
            if key in keys:
                channel.close("the queue is closed, or its process is gone")

    async def serve(self, channel: Channel) -> None:
        """Serves a channel until it is over.

        Raises:
            Closed: the channel is over.
            InvalidArgument: the queue does not exist, or may not leave this machine.
            ProtocolError: a message of the peer is invalid.
        """
        key = channel.key
        queue = self._local.opened(key)
        entry = self._local.entries.get(key)
        if queue is None or entry is None:
            raise InvalidArgument("there is no such queue here")
        if not self._rules.exports.lets(public_name(entry.name), channel.machine):
            raise InvalidArgument(f"{entry.name} may not leave this machine")
        home = QueueHome(queue, entry.name, channel.budget)
        export = QueueExport(home, channel, entry.name, redeliver=entry.redeliver)
        home.export = export
        self._channels[channel] = key
        try:
            while True:
                message = await channel.receive()
                with suppress(Closed):  # closed here, and the peer does not know it yet
                    _tell(export, message)
        finally:
            del self._channels[channel]
            export.end()
            home.finish()


def _tell(export: QueueExport, message: ChannelMessage) -> None:
    verb = message.verb
    if verb == "put":
        id, waits = message.numbers(2)
        export.on_put(id, message, waits=bool(waits))
    elif verb == "call":
        export.on_call(*_called(message))
    elif verb == "demand":
        count, seen = message.numbers(2)
        export.on_demand(count, seen)
    else:
        told = {
            "cancel": export.on_cancel,
            "taken": export.on_taken,
            "refused": export.on_refused,
            "spoilt": export.on_spoilt,
            "done": export.on_done,
            "died": export.on_died,
            "passed": export.on_passed,
        }.get(verb)
        if told is None:
            raise ProtocolError(f"the channel of a queue: {verb!r} is unknown")
        (which,) = message.numbers(1)
        told(which)


def _called(message: ChannelMessage) -> tuple[int, str, int]:
    if len(message.arguments) == 3:
        id, verb, number = message.arguments
        if isinstance(id, int) and isinstance(verb, str) and isinstance(number, int):
            return id, verb, number
    raise ProtocolError(f"call: {message.arguments}")
