"""Asking the one process that offers a service."""

from __future__ import annotations

from typing import Any

from tensorbus import _core
from tensorbus._base.participant import participant
from tensorbus._cli.output import fail
from tensorbus._services.calls import queue_name
from tensorbus._services.client import Client


def asked(
    name: str, request: dict[str, Any], domain: str | None, timeout: float, command: str
) -> dict[str, Any]:
    """The answer, a dict. The command fails if no process, or more than one, offers the service.

    Args:
        name: of the service.
        request: what to ask.
        domain: see `tensorbus.participant`.
        timeout: seconds for the answer.
        command: what offers it, for messages.
    """
    found = _core.Queue.addresses_of(queue_name(name), participant(domain))
    if not found:
        fail(f"no `{command}` of the name {name!r} runs")
    if len(found) > 1:
        fail(f"{len(found)} processes are called {name!r}: give each a --name of its own")
    with Client[Any, Any](name, timeout=timeout, domain=domain) as client:
        reply = client.call_sync(request)
    if not isinstance(reply, dict):
        fail(f"service {name!r} answers other than `{command}` does")
    return reply
