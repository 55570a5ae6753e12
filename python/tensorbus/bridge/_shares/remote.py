"""Fetches shares of other machines for programs of this machine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable

from tensorbus import _core
from tensorbus._base.errors import AccessDenied, Closed, ProtocolError
from tensorbus._sharing.elsewhere import error_of
from tensorbus.bridge._streams.channel import Channel

_LONGEST = 1 << 40  # ms
_OTHERS_ANSWER_IN = 1.0  # seconds to wait for other peers after the first has replied `here`

# Opens a channel with this kind and key to each peer.
OpenAll = Callable[[str, str], Iterable[Channel]]


class RemoteShare:
    """A share of another machine, and its copy on this machine.

    Each attach sends a request to the process that shares it. That process counts the attach, and
    checks that the share is open. The tensors are transferred once.

    Args:
        handle: of the share.
        participant: this machine's bridge, which owns the copy.
        open_all: opens channels.
        on_fetched: called when the tensors have arrived.
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
        """Returns the handle of the copy; None if no peer has the participant that shares it.

        Args:
            access: as for `tensorbus.attach`.
            timeout: in seconds; None: no limit.

        Raises:
            AccessDenied: the access is "shared", or two peers claim to have the participant.
            Closed: the channel or the session has ended.
            Error: as raised by `tensorbus.attach` on the other machine.
        """
        async with self._turn:
            if self._channel is not None and self._channel.over:
                self.close()
            try:
                return await self._attach(access, timeout)
            except Closed:
                self.close()
                raise
            except BaseException:  # says nothing about the share: the copy stays valid
                self._leave_channel()  # the answer for this caller may still arrive in this channel
                raise

    def close(self) -> None:
        """Drops the channel and the copy. Programs that have attached keep the copy."""
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
                f"it is shared on the machine {channel.machine} and cannot be written to from "
                "another machine: attach with another access, to a copy"
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
                raise ProtocolError(f"the channel of a share: {message.verb!r} is unexpected")
        assert self._copy is not None
        return self._copy.handle

    # Returns the channel to the peer that has the participant. If two peers claim to have it, the
    # handle is sent to neither.
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
                        "have the process that shares it: the handle is sent to neither"
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
