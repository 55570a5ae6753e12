"""The figures that are made of many times, and what may be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from harness.report import percentile

# How many times there must be for a percentile to be more than the worst of them.
MIN_FOR = {0.5: 1, 0.99: 200, 0.999: 2000}
NAMES = {0.5: "p50_ns", 0.99: "p99_ns", 0.999: "p999_ns"}


def latency_figures(times: Sequence[float]) -> dict[str, float]:
    """The percentiles that so many times allow."""
    return {
        NAMES[part]: percentile(times, part)
        for part, least in MIN_FOR.items()
        if len(times) >= least
    }


def spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def is_within_spread(ours: Sequence[float], others: Sequence[float]) -> bool:
    """Whether repetitions of one row differ by more than the row does from its neighbour."""
    difference = abs(median(ours) - median(others))
    return max(spread(ours), spread(others)) > difference


def nearest(row: str, rows: Mapping[str, Sequence[float]]) -> str | None:
    """The other row whose median is next to this one's."""
    others = {
        other: abs(median(values) - median(rows[row]))
        for other, values in rows.items()
        if other != row
    }
    return min(others, key=others.__getitem__, default=None)


def indistinct(rows: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Of each row that its neighbour cannot be told from: that neighbour."""
    neighbours = {row: nearest(row, rows) for row in rows}
    return {
        row: other
        for row, other in neighbours.items()
        if other is not None and is_within_spread(rows[row], rows[other])
    }
