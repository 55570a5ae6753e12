"""What `tensorbus player` asks a running `tensorbus play`, and the answers."""

from __future__ import annotations

from typing import Any

from tensorbus._base.errors import InvalidArgument
from tensorbus._recording.player import Player

NAME = "player"  # of the service, by default
ASKED = ("status", "pause", "resume", "step", "rate")


class Control:
    """The service: requests are `{"do": one of ASKED}`, with a `count` or a `rate`."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def answer(self, request: Any) -> dict[str, Any]:
        """Does it, and says how the player is.

        Raises:
            InvalidArgument: nobody can do this.
        """
        what = request.get("do") if isinstance(request, dict) else None
        player = self._player
        if what == "pause":
            player.pause()
        elif what == "resume":
            player.resume()
        elif what == "step":
            player.step(request.get("count", 1))
        elif what == "rate":
            player.rate = request.get("rate")
        elif what != "status":
            raise InvalidArgument(f"{request!r}: expected {{'do': one of {ASKED}}}")
        return {"file": player.path, **player.stats}
