"""Serves shares of this machine to other machines."""

from __future__ import annotations

import os
import re

from tensorbus import _core
from tensorbus._base.errors import Closed, Error, ProtocolError, Timeout
from tensorbus._sharing.elsewhere import code_of
from tensorbus.bridge._shares.threads import in_a_thread
from tensorbus.bridge._streams.channel import Channel, ChannelMessage


class ShareServer:
    """Serves channels of kind "share". The key of a channel is the id of the sharing participant.

    The handle is a secret: it gives access to the tensors, as on this machine.

    Args:
        participant: this machine's bridge.
    """

    def __init__(self, participant: _core.Participant) -> None:
        self._participant = participant

    async def serve(self, channel: Channel) -> None:
        if not self._is_here(channel.key):
            raise Closed("there is no such participant here")
        channel.send("here")
        while True:
            message = await channel.receive()
            if message.verb != "attach":
                raise ProtocolError(f"the channel of a share: {message.verb!r} is unknown")
            known, milliseconds = message.numbers(2)
            timeout = milliseconds / 1000 if milliseconds else None
            try:
                async with channel.budget.attaching:
                    found = await self._attach(message, timeout)
                if known:
                    channel.send("same")
                else:
                    channel.send("share", fields=found.fields, sample=found)
                del found
            except Closed as error:
                if channel.over:
                    raise
                channel.send("refused", code_of(error), str(error))
            except ProtocolError:
                raise
            except Error as error:
                channel.send("refused", code_of(error), str(error))

    async def _attach(self, message: ChannelMessage, timeout: float | None) -> _core.Sample:
        handle = _core.Handle.from_bytes(message.fields)
        found = await in_a_thread(
            lambda: _core.attach(handle, _core.Access.READ, timeout, self._participant)
        )
        if isinstance(found, _core.Outcome):
            raise Timeout("nobody answered in time: the process that shares it is stopped, or busy")
        return found

    def _is_here(self, participant: str) -> bool:
        if not re.fullmatch("[0-9a-f]{32}", participant):
            raise ProtocolError(f"OPEN.key: {participant!r} is no participant")
        return os.path.exists(os.path.join(self._participant.domain, f"{participant}.sock"))
