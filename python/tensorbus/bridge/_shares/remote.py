"""Shares of other machines, for programs of this one: the side of a channel that wants them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable

from tensorbus import _core
from tensorbus._base.errors import AccessDenied, Closed, ProtocolError
from tensorbus._sharing.elsewhere import error_of
from tensorbus.bridge._streams.channel import Channel

_LONGEST = 1 << 40  # ms
_OTHERS_ANSWER_IN = 1.0  # seconds, when one peer has said that the share is there

# A new channel of this kind and key to each peer.
OpenAll = Callable[[str, str], Iterable[Channel]]


class RemoteShare:
    """One share: where it is, and the copy of it on this machine.

    Each attach asks the process that shares it, which counts it, and knows whether it is open; the
    tensors come once.

    Args:
        handle: of the share.
        participant: this machine's bridge, which has the copy.
        open_all: opens channels.
        on_fetched: called when the tensors have come.
    """

    def __init__(
        self,
        handle: _core.Handle,
        participant: _core.Participant,
        open_all: OpenAll,
        on_fetched: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._participant = participant
        self._open_all = open_all
        self._on_fetched = on_fetched
        self._channel: Channel | None = None
        self._copy: _core.Shared | None = None
        self._turn = asyncio.Lock()

    @property
    def has_copy(self) -> bool:
        return self._copy is not None

    async def attach(self, access: str, timeout: float | None) -> _core.Handle | None:
        """The handle of the copy; None if no peer has the participant that shares it.

        Raises:
            AccessDenied: it is to be written to, or two peers say that they have it.
            Error: what `tensorbus.attach` raises there.
        """
        async with self._turn:
            if self._channel is not None and self._channel.over:
                self.close()
            try:
                return await self._attach(access, timeout)
            except Closed:
                self.close()
                raise
            except BaseException:  # of the share this says nothing: others are about to attach
                self._leave_channel()  # an answer may be owed there
                raise

    def close(self) -> None:
        """Forgets it. Who has attached keeps what they have."""
        self._leave_channel()
        if self._copy is not None:
            self._copy.close()
        self._copy = None

    def _leave_channel(self) -> None:
        if self._channel is not None:
            self._channel.abort()
        self._channel = None

    async def _attach(self, access: str, timeout: float | None) -> _core.Handle | None:
        if self._channel is None:
            self._channel = await self._found()
        channel = self._channel
        if channel is None:
            return None
        if access == "shared":
            raise AccessDenied(
                f"it is shared on the machine {channel.machine}, and nobody can write to it from "
                "another one: attach with another access, to a copy"
            )
        milliseconds = 0 if timeout is None else max(1, min(int(timeout * 1000), _LONGEST))
        known = int(self._copy is not None)
        channel.send("attach", known, milliseconds, fields=self._handle.bytes())
        message = await channel.receive()
        match message.verb, message.arguments:
            case "share", []:
                outgoing = await message.outgoing()
                self._copy = _core.share(
                    outgoing, message.fields, 0, None, False, self._participant
                )
                self._on_fetched()
            case "same", [] if known:
                pass
            case "refused", [int(code), str(text)]:
                raise error_of(code, text)
            case _:
                raise ProtocolError(f"a channel of a share: {message.verb!r}")
        assert self._copy is not None
        return self._copy.handle

    # On the peer that has the participant. The handle is told to nobody where two say so.
    async def _found(self) -> Channel | None:
        channels = list(self._open_all("share", self._handle.owner))
        waiting = {asyncio.ensure_future(_is_here(channel)) for channel in channels}
        here: list[Channel] = []
        try:
            now = asyncio.get_running_loop().time
            until = math.inf  # the others may be stopped, or out of reach
            while waiting and now() < until:
                timeout = None if until == math.inf else until - now()
                answered, waiting = await asyncio.wait(
                    waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
                here += [found for task in answered if (found := task.result()) is not None]
                if len(here) > 1:
                    raise AccessDenied(
                        f"the machines {here[0].machine} and {here[1].machine} both say that they "
                        "have the process that shares it: neither is told the handle"
                    )
                if here:
                    until = min(until, now() + _OTHERS_ANSWER_IN)
        finally:
            for task in waiting:
                task.cancel()
            for channel in channels:
                if here != [channel]:
                    channel.abort()
        return here[0] if here else None


async def _is_here(channel: Channel) -> Channel | None:
    try:
        message = await channel.receive()
    except (Closed, ProtocolError):
        return None
    return channel if message.verb == "here" else None
