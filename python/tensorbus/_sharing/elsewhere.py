"""Attaching to a share of another machine: this machine's bridge fetches a copy."""

from __future__ import annotations

import math
import os
import threading
import time

from tensorbus import _core
from tensorbus._base.errors import BY_CODE, Closed, Error, ProtocolError, Timeout
from tensorbus._services import calls
from tensorbus._services.server import Replies, Server

SERVICE = "tensorbus/shares"  # the bridge's service for the programs of its machine


def code_of(error: Error) -> int:
    """The number of an error's class, for `error_of`."""
    kinds = [number for number, kind in enumerate(BY_CODE) if isinstance(error, kind)]
    return kinds[-1] if kinds else BY_CODE.index(ProtocolError)


def error_of(code: int, text: str) -> Error:
    """The error with a number of `code_of`. A peer sent the number: any value is accepted."""
    return (BY_CODE[code] if 0 <= code < len(BY_CODE) else ProtocolError)(text)


def copy_of(
    handle: _core.Handle, access: str, timeout: float | None, home: _core.Participant
) -> _core.Handle | None:
    """The handle of a copy on this machine; None if no bridge finds the share.

    Raises:
        Error: like `attach`, on the other machine or here.
    """
    if os.path.exists(os.path.join(home.domain, f"{handle.owner}.sock")):
        return None  # the sharing process is on this machine
    any_type = calls.Types(None, None)
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    for address in _core.Queue.addresses_of(calls.queue_name(SERVICE), home):
        try:
            left = None if timeout is None else max(deadline - time.monotonic(), 0)
            queue = _core.Queue.open(address, left, home)
        except Closed:
            continue  # this bridge has ended
        bridge = Server(queue, threading.Lock(), 0.0)
        replies = Replies(home.domain, None)
        try:
            data = [handle.bytes(), access, timeout]
            item = calls.request_item(replies.queue.address, any_type, data)
            bridge.put(item, deadline).answer_sync()
            answer = bridge.get(replies, deadline).answer_sync()
        except Timeout:
            raise Timeout(
                "no reply in time: no bridge, or the share's process is stopped"
            ) from None
        except Closed:
            continue
        finally:
            bridge.close()
            replies.queue._discard()
        assert isinstance(answer, _core.Sample)
        match calls.read_reply(SERVICE, answer, any_type, None):
            case bytes(copy):
                return _core.Handle.from_bytes(copy)
            case [int(code), str(text)]:
                raise error_of(code, text)
            case None:
                return None
            case other:
                raise ProtocolError(f"unexpected reply of the bridge: {other!r}")
    return None
