"""What all parts of a session share: the peer, the rules, and the connection."""

from __future__ import annotations

from tensorbus import _core
from tensorbus.bridge._budget import PeerBudget
from tensorbus.bridge._clock import Clock
from tensorbus.bridge._rules import Rules
from tensorbus.bridge._streams.pump import Pump
from tensorbus.bridge._wire.frames import Frame
from tensorbus.bridge._wire.lane import Lane


class Link:
    """The link to one peer, over changing connections.

    Args:
        machine: the other machine's name.
        rules: what may cross.
        participant: this machine's bridge.
        budget: of the peer.
    """

    def __init__(
        self,
        machine: str,
        rules: Rules,
        participant: _core.Participant,
        budget: PeerBudget | None = None,
    ) -> None:
        self.machine = machine
        self.rules = rules
        self.participant = participant
        self.budget = budget or PeerBudget(machine)
        self.clock = Clock()
        self.pump = Pump()
        self.express: Lane | None = None

    @property
    def connected(self) -> bool:
        return self.express is not None

    def send(self, frame: Frame, stream: int = 0) -> None:
        """Sends a control frame. Does nothing without a connection."""
        if self.express is not None:
            self.express.send(frame, stream)
