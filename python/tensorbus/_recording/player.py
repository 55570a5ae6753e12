"""Playing what was recorded."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tensorbus import _core
from tensorbus._base.arguments import seconds, topic_name, whole_number
from tensorbus._base.closing import Closing
from tensorbus._base.device import ordinal_of
from tensorbus._base.errors import InvalidArgument
from tensorbus._base.public import public
from tensorbus._base.stats import Stats
from tensorbus._core import Outcome
from tensorbus._recording.recording import END, Recording


@public
@dataclass(frozen=True, eq=False)
class PlayerStats(Stats):
    """Counters of a `Player` since it was made, and its present state."""

    messages: int
    """Published messages."""
    left: int
    """Messages that are still to be published, in this turn of a loop."""
    loops: int
    """Turns of the loop that are over."""
    unreadable: int
    """Messages that were left out, because the file is damaged there."""
    bytes_copied: int
    """Bytes of tensors that were copied: 0, unless another program has moved the messages."""
    position_ns: int
    """The time of the recording that it is now, in nanoseconds since 1970."""
    latest_ns: int
    """By how many nanoseconds a message was published too late, at most."""
    late_ns: int
    """The same, summed over all messages."""
    rate: float
    paused: bool
    ended: bool
    """All was published, or playing has failed."""
    error: str
    """About the first message that could not be read, or why playing has failed; "": nothing."""


@public
class Player(Closing):
    """Publishes what was recorded, with the intervals at which it was recorded.

    Tensors are lent from the mapped file, and nothing is copied. The publishers are like the
    recorded ones (type, depth, history, reliable, node). `header.sequence` and
    `header.timestamp_ns` are those of the recorded sample; `header.origin` says that it is a
    replay: its machine is "replay:" and the file's name, its publisher the recorded one.

    It begins at once, in a thread of the core, and `wait` waits for its end; with `paused=True`
    when `resume` is called.

    Args:
        recording: the file, or its path.
        topics: recorded names, one or several; by default all.
        rate: 2.0: twice as fast.
        loop: `True`: begins again after the last message. Sequence numbers go on.
        start: seconds after the first message of the recording: from then on,
        end: and before then; `None` plays to the end.
        remap: other names for topics: `{"camera/image": "replayed/image"}`.
        paused: `True`: waits for `resume` or `step`.
        clock: a topic on which to publish what time it is in the recording, 100 times a second:
            `{"time_ns": ..., "rate": ..., "paused": ...}`. A clock that was recorded on this topic
            is left out.
        device: "cuda:0" and so on: tensors that were published on a GPU are copied to this one; by
            default they are lent from the file, in main memory.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: a topic that is not in the recording, an option out of range, a `clock` on
            a topic on which the recording has data; what `Recording` raises.
        Unsupported: `device`, and no GPU here that can do that.

    >>> import os, tempfile
    >>> from tensorbus import Publisher, Recorder, Subscriber
    >>> path = os.path.join(tempfile.mkdtemp(), "run.mcap")
    >>> with Publisher("doc/player", reliable=True) as publisher:
    ...     with Recorder(path, "doc/player", reliable=True):
    ...         publisher.wait_for_subscribers(timeout=10)
    ...         publisher.publish({"id": 7})
    True
    1
    >>> with Subscriber("doc/player", timeout=10) as numbers, Player(path, paused=True) as player:
    ...     player.wait_for_subscribers(timeout=10)
    ...     player.resume()
    ...     sample = numbers.receive()
    ...     sample.data, sample.header.sequence, sample.header.origin.machine
    True
    ({'id': 7}, 0, 'replay:run.mcap')
    """

    _in_a_child = "play in the process that made it"

    def __init__(
        self,
        recording: str | os.PathLike[str] | Recording,
        topics: str | Iterable[str] = (),
        *,
        rate: float = 1.0,
        loop: bool = False,
        start: float = 0.0,
        end: float | None = None,
        remap: Mapping[str, str] | None = None,
        paused: bool = False,
        clock: str | None = None,
        device: Any = None,
        domain: str | None = None,
    ) -> None:
        found = recording if isinstance(recording, Recording) else Recording(recording)
        names = [topics] if isinstance(topics, str) else [*topics]
        self._path = found.path
        begin = found.start_ns
        self._core = _core.Player(
            found._open(),
            topics=[topic_name(name) for name in names],
            remap={topic_name(old): topic_name(new) for old, new in (remap or {}).items()},
            rate=_number("rate", rate),
            loop=loop,
            paused=paused,
            begin=_after(begin, _number("start", start)) if start else 0,
            end=END if end is None else _after(begin, _number("end", end)),
            clock="" if clock is None else topic_name(clock),
            device=ordinal_of(device),
            domain=domain or "",
        )

    @property
    def path(self) -> str:
        """The path of the recording."""
        return self._path

    @property
    def rate(self) -> float:
        """How fast it plays; can be set at any time."""
        return float(self._core.stats["rate"])

    @rate.setter
    def rate(self, rate: float) -> None:
        self._core.set_rate(_number("rate", rate))

    @property
    def stats(self) -> PlayerStats:
        """What it has published, where it is, and how punctual it was."""
        return PlayerStats(**self._core.stats)

    def pause(self) -> None:
        """Stops before the next message; one that is on its way is still published."""
        self._core.pause()

    def resume(self) -> None:
        """Goes on; the interval to the next message is what was left of it."""
        self._core.resume()

    def step(self, count: int = 1) -> None:
        """Pauses, and publishes the next `count` messages at once."""
        self._core.step(whole_number("count", count, low=1))

    def wait_for_subscribers(self, timeout: float | None = None) -> bool:
        """Waits until each topic has a subscriber; False after `timeout` seconds."""
        return self._core.wait_for_subscribers(seconds("timeout", timeout)) is Outcome.DONE

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all was published, or playing has failed; False after `timeout` seconds.

        `close` then raises why it has failed.
        """
        return self._core.wait(seconds("timeout", timeout)) is Outcome.DONE

    def close(self) -> None:
        """Ends playing, and its publishers. A second call does nothing.

        Samples that were received stay valid, as long as they are held.

        Raises:
            Error: playing has failed, as for want of memory.
        """
        self._core.close()

    def __repr__(self) -> str:
        stats = self.stats
        state = "ended" if stats.ended else "paused" if stats.paused else f"rate={stats.rate:g}"
        return (
            f"<tensorbus.Player {self._path!r} messages={stats.messages} left={stats.left} {state}>"
        )


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf or (name == "rate" and not number):
        raise InvalidArgument(f"{name}={value!r}: expected a number above 0")
    return number


def _after(begin_ns: int, seconds: float) -> int:
    return min(begin_ns + round(seconds * 1e9), END)
