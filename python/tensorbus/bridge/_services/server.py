"""Serves clients of other machines: calls services of this machine for them."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import suppress

from tensorbus import _core
from tensorbus._base.errors import (
    Closed,
    Error,
    OutOfMemory,
    ProtocolError,
    Timeout,
    Unsupported,
)
from tensorbus._services.calls import error_item
from tensorbus._services.server import Replies
from tensorbus._services.watched_request import Lifeline, WatchedRequest
from tensorbus.bridge._budget import PeerBudget
from tensorbus.bridge._queues.lists import SERVICE_PREFIX, LocalQueues, public_name
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._services.calls import MAX_CALLS, with_reply
from tensorbus.bridge._shares.threads import in_a_thread
from tensorbus.bridge._shortage import Backoff
from tensorbus.bridge._streams.channel import Channel, ChannelMessage

_OF_CALL = 4  # descriptors of a call
_OPENS_IN = 1.0  # seconds to wait for the reply of a process before the next try


class ServiceServer:
    """Serves channels of kind "service". The key of a channel is that of the service's queue.

    Args:
        participant: this machine's bridge.
        queues: of this machine.
        rules: what may cross.
    """

    def __init__(self, participant: _core.Participant, queues: LocalQueues, rules: Rules) -> None:
        self._participant = participant
        self._queues = queues
        self._rules = rules

    async def serve(self, channel: Channel) -> None:
        entry = self._queues.entries.get(channel.key)
        if (
            entry is None
            or not entry.name.startswith(SERVICE_PREFIX)
            or not self._rules.exports.lets(public_name(entry.name), channel.machine)
        ):
            return
        address = self._queues.address_of(channel.key)
        message = await channel.receive()  # the service is not opened before the first call
        queue = await self._open(address, entry.name, channel.budget)
        calls = _Calls(channel, queue, self._participant.domain)
        try:
            while True:
                await calls.begin(message)
                message = await channel.receive()
        finally:
            calls.close()

    async def _open(self, address: str, name: str, budget: PeerBudget) -> _core.Queue:
        backoff = Backoff(f"the service {public_name(name)} is not called", budget.log.warning)
        while True:
            try:
                async with budget.opening:
                    found = await in_a_thread(
                        lambda: _core.Queue.open(address, _OPENS_IN, self._participant)
                    )
                backoff.succeeded()
                return found
            except Timeout:  # the process is stopped: try again
                pass
            except OutOfMemory as error:
                await asyncio.sleep(backoff.failed(error))


class _Calls:
    """The calls of one channel: for one service, from one machine.

    Calls are put to the service's queue in the order of their arrival; the reply address is a
    queue of this bridge. A task then waits for the answer.
    """

    def __init__(self, channel: Channel, queue: _core.Queue, domain: str) -> None:
        self._channel = channel
        self._queue = queue
        self._domain = domain
        self._life: Lifeline | None = None
        self._idle: deque[Replies] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._service_is_gone = False

    async def begin(self, message: ChannelMessage) -> None:
        """Begins a call.

        Raises:
            ProtocolError: it is not a call, or the peer has too many calls.
        """
        if message.verb != "call":
            raise ProtocolError(f"the channel of a service: {message.verb!r} is unknown")
        (number,) = message.numbers(1)
        if len(self._tasks) >= MAX_CALLS:
            raise ProtocolError(f"the channel of a service: more than {MAX_CALLS} calls")
        await self._channel.budget.descriptors.wait_for(_OF_CALL)
        replies = None
        try:
            outgoing = await message.outgoing()
            replies = self._idle.pop() if self._idle else Replies(self._domain, "read")
            fields = with_reply(message.fields, replies.queue.address)
            putting = self._queue.start_put(outgoing, fields)
        except Error as error:
            self._channel.budget.descriptors.give_back(_OF_CALL)
            if replies is not None:
                replies.queue._discard()
            if isinstance(error, ProtocolError):
                raise
            if isinstance(error, Closed):
                self._service_is_gone = True
                return self._end_if_gone()
            return self._refuse(number, error)
        task = asyncio.ensure_future(self._call(number, putting, replies))
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def close(self) -> None:
        """Cancels all calls: the answers are not needed any more."""
        for task in self._tasks:
            task.cancel()
        if self._life is not None:
            self._life.close()
        while self._idle:
            self._idle.pop().queue._discard()

    async def _call(self, number: int, putting: _core.Pending, replies: Replies) -> None:
        try:
            await WatchedRequest(putting, math.inf).answer()
            del putting  # releases its descriptors
            found = await self._answer(replies)
        except Closed:
            self._service_is_gone = True
            replies.queue._discard()
        except Error as error:
            replies.queue._discard()
            self._refuse(number, error)
        except BaseException:
            replies.queue._discard()
            raise
        else:
            replies.taken += 1
            self._idle.append(replies)
            try:
                self._tell(number, found.fields, found)
            except Unsupported as error:
                self._refuse(number, error)

    def _refuse(self, number: int, error: Error) -> None:
        self._tell(number, error_item(error)[1])

    def _tell(self, number: int, fields: bytes, sample: _core.Sample | None = None) -> None:
        with suppress(Closed):  # the answer is not needed any more
            self._channel.send("answer", number, fields=fields, sample=sample)

    async def _answer(self, replies: Replies) -> _core.Sample:
        if self._life is None:
            self._life = Lifeline(self._queue.start_join())
        getting = replies.queue._here.start_get()
        found = await WatchedRequest(getting, math.inf, self._life, replies.one_has_come).answer()
        if not isinstance(found, _core.Sample):
            raise Error(f"a queue answered {found}")
        return found

    # If the service is gone, the channel is closed after the last call. So answers that came before
    # the end are sent first.
    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._channel.budget.descriptors.give_back(_OF_CALL)
        self._end_if_gone()

    def _end_if_gone(self) -> None:
        if self._service_is_gone and not self._tasks:
            self._channel.close("the service is gone")
