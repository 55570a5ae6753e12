"""Answers requests of programs of this machine for shares of other machines."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import Any

from tensorbus import _core
from tensorbus._base.errors import Error, InvalidArgument, Timeout
from tensorbus._queues.pending import result_of
from tensorbus._services import calls
from tensorbus._services.answers import Answers
from tensorbus._sharing.elsewhere import SERVICE, code_of
from tensorbus.bridge._shares.remote import OpenAll, RemoteShare
from tensorbus.bridge._shortage import Backoff

logger = logging.getLogger("tensorbus.bridge")

_KEPT = 30.0  # seconds for which a copy is kept after the last attach
_MAX_AT_ONCE = 256  # concurrent requests

_ANY = calls.Types(None, None)


class Shares:
    """Answers `tensorbus.attach` of programs of this machine.

    Args:
        participant: this machine's bridge.
        open_all: opens channels.
    """

    def __init__(self, participant: _core.Participant, open_all: OpenAll) -> None:
        self.fetched = 0  # shares whose tensors have arrived
        self._participant = participant
        self._open_all = open_all
        self._shares: dict[bytes, RemoteShare] = {}  # by handle
        self._users: dict[bytes, int] = {}  # pending requests, by handle
        self._forgetting: dict[bytes, asyncio.TimerHandle] = {}
        self._answers = Answers(
            participant.domain, lambda error: logger.warning("a share: %s", error)
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_MAX_AT_ONCE)

    async def run(self) -> None:
        """Runs until cancelled."""
        backoff = Backoff("no request for a share is taken", logger.warning)
        queue = None
        try:
            while True:
                await self._room.acquire()
                try:
                    if queue is None:
                        queue = self._queue()
                    found = await result_of(queue.start_get())
                except (Error, MemoryError, OSError) as error:
                    self._room.release()
                    await asyncio.sleep(backoff.failed(error))
                    continue
                backoff.succeeded()
                assert isinstance(found, _core.Sample)
                task = asyncio.ensure_future(self._answer(found))
                self._tasks.add(task)
                task.add_done_callback(self._done)
        finally:
            if queue is not None:
                queue.close()
            for task in self._tasks:
                task.cancel()
            for timer in self._forgetting.values():
                timer.cancel()
            for share in self._shares.values():
                share.close()

    def _queue(self) -> _core.Queue:
        return _core.Queue(
            maxsize=0,
            redeliver=False,
            shared=False,
            name=calls.queue_name(SERVICE),
            max_bytes=0,
            participant=self._participant,
        )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()

    async def _answer(self, sample: _core.Sample) -> None:
        try:
            request = calls.read_request(sample, None)
            try:
                answer = await self._attach(request.data)
            except Error as error:
                answer = [code_of(error), str(error)]
            self._answers.give(request.reply, calls.reply_item(_ANY, answer))
        except (Error, MemoryError) as error:
            logger.warning("a request for a share: %s", error)

    async def _attach(self, data: Any) -> Any:
        match data:
            case [bytes(name), str(access), None | int() | float() as timeout]:
                handle = _core.Handle.from_bytes(name)
            case _:
                raise InvalidArgument("this is no request for a share")
        if timeout is not None and not math.isfinite(timeout):
            timeout = None
        share = self._enter(name, handle)
        try:
            copy = await asyncio.wait_for(share.attach(access, timeout), timeout)
        except asyncio.TimeoutError:
            raise Timeout("nobody answered in time: the other machine, or its process") from None
        finally:
            self._leave(name)
        return None if copy is None else copy.bytes()

    def _enter(self, name: bytes, handle: _core.Handle) -> RemoteShare:
        timer = self._forgetting.pop(name, None)
        if timer is not None:
            timer.cancel()
        share = self._shares.get(name)
        if share is None:
            share = self._shares[name] = RemoteShare(
                handle, self._participant, self._open_all, self._count
            )
        self._users[name] = self._users.get(name, 0) + 1
        return share

    def _leave(self, name: bytes) -> None:
        self._users[name] -= 1
        if self._users[name]:
            return
        del self._users[name]
        kept = _KEPT if self._shares[name].has_copy else 0
        self._forgetting[name] = asyncio.get_running_loop().call_later(kept, self._forget, name)

    def _forget(self, name: bytes) -> None:
        del self._forgetting[name]
        self._shares.pop(name).close()

    def _count(self) -> None:
        self.fetched += 1

    def status(self) -> dict[str, int]:
        """Returns the part of `tensorbus bridge status` for shares."""
        kept = sum(share.has_copy for share in self._shares.values())
        return {"fetched": self.fetched, "kept": kept}
