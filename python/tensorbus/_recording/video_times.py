"""Presentation times of frames in exported videos, and the name of the index."""

from __future__ import annotations

from fractions import Fraction

INDEX = "messages.jsonl"
"""The file beside a video, with a line for each message and its recorded time."""
KEY_FRAME_DISTANCE = 30  # frames: so many are decoded at most to reach one
TIME_BASES = {"mp4": Fraction(1, 90_000), "mkv": Fraction(1, 1000)}
"""The unit of presentation times, in seconds, by the suffix of the file."""


def time_after(last: int, elapsed_ns: int, unit: Fraction) -> int:
    """The presentation time of a frame, in units; no two frames have the same.

    Args:
        last: the presentation time of the frame before; -1: there is none.
        elapsed_ns: the time since the first frame.
        unit: in seconds.

    >>> time_after(-1, 0, Fraction(1, 1000)), time_after(5, 33_400_000, Fraction(1, 1000))
    (0, 33)
    >>> time_after(33, 33_410_000, Fraction(1, 1000))
    34
    """
    return max(last + 1, round(Fraction(elapsed_ns, 10**9) / unit))
