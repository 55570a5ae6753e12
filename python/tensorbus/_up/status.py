"""What the processes of a running pipeline do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tensorbus._base.public import public


@public
@dataclass(frozen=True)
class ProcessStatus:
    """What a process of a pipeline does now. Made by `Pipeline.status`."""

    process: str
    """Its name in the file; with `replicas`, a dot and a number from 1 follow."""
    state: str
    """"waiting", "starting", "running", "backing off", "stopping", "ended" or "failed"."""
    pid: int
    """0: there is no process."""
    restarts: int
    """Restarts after exits, since it was started by a command."""
    reason: str
    """What it waits for, or why it has ended; "": neither."""
    unmet: tuple[str, ...]
    """Expectations that are not met for longer than their grace, each with its cause."""


def statuses(reply: dict[str, Any]) -> list[ProcessStatus]:
    """The processes in the reply to a request for the status."""
    return msgspec.convert(reply["processes"], list[ProcessStatus])
