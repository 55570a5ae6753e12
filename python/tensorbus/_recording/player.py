"""Playing of recordings."""

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
    """Counters of a `Player` since it was made, and its current state."""

    messages: int
    """Published messages."""
    left: int
    """Messages that are still to be published; with `loop`, in the current pass."""
    loops: int
    """Completed passes over the recording."""
    unreadable: int
    """Messages that were left out because the file is damaged."""
    bytes_copied: int
    """Bytes of tensors that were copied: 0, unless another program has moved the messages."""
    position_ns: int
    """The current time in the recording, in nanoseconds since 1970."""
    latest_ns: int
    """The largest delay of a message, in nanoseconds."""
    late_ns: int
    """The sum of the delays of all messages, in nanoseconds."""
    rate: float
    """How fast it plays; 1: as fast as recorded."""
    paused: bool
    """Whether it is paused."""
    ended: bool
    """All messages were published, or playing has failed."""
    error: str
    """Why playing has failed, or the error of the first unreadable message; "": no error."""


@public
class Player(Closing):
    """Publishes recorded messages at the intervals at which they were recorded.

    Tensors are lent from the mapped file; nothing is copied. The publishers have the options of the
    recorded publishers (type, depth, history, reliable, node). `header.sequence` and
    `header.timestamp_ns` are those of the recorded sample. `header.origin` marks a replay: its
    machine is "replay:" and the file's name, and its publisher is the recorded publisher.

    A player starts at once, in a thread of the core; with `paused=True` it starts when `resume` is
    called. `wait` waits for its end.

    Args:
        recording: a `Recording`, or the path of one.
        topics: one recorded topic, or several; by default all.
        rate: speed; 2.0 is twice as fast as recorded.
        loop: begin again after the last message. Sequence numbers continue.
        start: where to start, in seconds after the first message of the recording.
        end: where to end, in seconds after the first message; `None`: at the last message.
        remap: other names for topics: `{"camera/image": "replayed/image"}`.
        paused: wait for `resume` or `step`.
        clock: a topic on which to publish the time in the recording, 100 times a second:
            `{"time_ns": ..., "rate": ..., "paused": ...}`. A clock that was recorded on this topic
            is left out.
        device: a GPU, as "cuda:0", to which tensors that were published on a GPU are copied; by
            default they are lent from the file, in main memory.
        domain: see `tensorbus.participant`.

    Raises:
        InvalidArgument: a topic is not in the recording, an option is out of range, or the
            recording has other data on the topic of `clock`.
        OSError, InvalidArgument, Unsupported: as `Recording`.
        Unsupported: `device` is given, and no GPU here can share its memory.

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
        """The speed; 1.0 is as recorded. It can be set at any time."""
        return float(self._core.stats["rate"])

    @rate.setter
    def rate(self, rate: float) -> None:
        self._core.set_rate(_number("rate", rate))

    @property
    def stats(self) -> PlayerStats:
        """Counters, position and delays."""
        return PlayerStats(**self._core.stats)

    def pause(self) -> None:
        """Pauses before the next message; a message that is being published is completed."""
        self._core.pause()

    def resume(self) -> None:
        """Continues after `pause`. The rest of the interval to the next message then elapses."""
        self._core.resume()

    def step(self, count: int = 1) -> None:
        """Pauses, and publishes the next `count` messages at once.

        Raises:
            InvalidArgument: `count` is less than 1.
        """
        self._core.step(whole_number("count", count, low=1))

    def wait_for_subscribers(self, timeout: float | None = None) -> bool:
        """Waits until each topic has a subscriber; False after `timeout` seconds."""
        return self._core.wait_for_subscribers(seconds("timeout", timeout)) is Outcome.DONE

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all messages were published, or playing has failed.

        Returns:
            True if the player has ended; if playing has failed, `close` raises the error. False
            after `timeout` seconds.
        """
        return self._core.wait(seconds("timeout", timeout)) is Outcome.DONE

    def close(self) -> None:
        """Ends playing and closes the publishers. A second call does nothing.

        Received samples stay valid as long as they are held.

        Raises:
            Error: playing has failed, for example because memory ran out.
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
