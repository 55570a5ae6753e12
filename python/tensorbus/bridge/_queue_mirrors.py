"""What a session receives of queues: those of the peer's machine, on this machine."""

from __future__ import annotations

from tensorbus.bridge._channels import Channels
from tensorbus.bridge._frames import QueueEntry
from tensorbus.bridge._link import Link


class QueueMirrors:
    """The mirrors of queues of a session.

    Args:
        link: to the peer.
        channels: of the session.
    """

    def __init__(self, link: Link, channels: Channels) -> None:
        self._link = link
        self._channels = channels

    def on_queues(self, added: list[QueueEntry], removed: list[str]) -> None:
        """Queues of the peer's machine have come and gone."""

    def close(self) -> None:
        """They end as if their processes had died."""
