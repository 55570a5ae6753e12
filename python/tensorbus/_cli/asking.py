"""Requests to the service of a running `tensorbus record` or `tensorbus play`."""

from __future__ import annotations

from typing import Any

from tensorbus import _core
from tensorbus._base.participant import participant
from tensorbus._cli.output import fail
from tensorbus._services.calls import queue_name
from tensorbus._services.client import Client


def ask(
    command: str, key: str, request: dict[str, Any], name: str, domain: str | None, timeout: float
) -> dict[str, Any]:
    """The reply, a dict with `key`. Fails if no process, or more than one, offers the service.

    Args:
        command: the command that offers the service, for messages.
        key: a key that every reply of this command has.
        request: the request.
        name: the service's name.
        domain: see `tensorbus.participant`.
        timeout: seconds to wait for the reply.
    """
    found = _core.Queue.addresses_of(queue_name(name), participant(domain))
    if not found:
        fail(f"no `{command}` with the name {name!r} is running")
    if len(found) > 1:
        fail(f"{len(found)} processes have the name {name!r}: give each its own --name")
    with Client[Any, Any](name, timeout=timeout, domain=domain) as client:
        reply = client.call_sync(request)
    if not isinstance(reply, dict) or key not in reply:
        fail(f"service {name!r} is not offered by `{command}`: its reply has no {key!r}")
    return reply
