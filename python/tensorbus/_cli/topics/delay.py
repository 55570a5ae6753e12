"""``tensorbus topic delay``: the age of samples when they arrive."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from tensorbus._base.errors import Timeout as TimedOut
from tensorbus._cli.bridge_status import clock_uncertainties
from tensorbus._cli.options import Count, Domain, Json, Topic, Window
from tensorbus._cli.output import print_table
from tensorbus._cli.records import print_record
from tensorbus._cli.topics.echo import Patience, fail_for_silence, monitor
from tensorbus._topics.sample import Sample
from tensorbus._topics.subscriber import Subscriber

EXAMPLES = """\b
Examples:
  tensorbus topic delay camera/image
  tensorbus topic delay camera/image --window 10 --count 1 --json"""

_MAX_AT_ONCE = 1024  # samples that wait in the queue; more than its depth


@dataclass(frozen=True)
class Delays:
    """Ages of the samples of one machine that arrived in a window, in nanoseconds."""

    machine: str
    """The machine that published them; "": this machine."""
    samples: int
    min_ns: float
    mean_ns: float
    max_ns: float
    std_ns: float
    clock_uncertainty_ns: int | None
    """The common error that all ages may have; None: unknown."""


def delay(
    topic: Topic,
    window: Window = 1.0,
    count: Count = None,
    patience: Patience = None,
    as_json: Json = False,
    domain: Domain = None,
) -> None:
    """Show the time from publishing a sample to receiving it here.

    No publisher waits for this command. For a sample of another machine, the bridge converts the
    time of publishing to this machine's clock; +- is the uncertainty of this conversion.
    """
    with monitor(topic, domain, 64) as subscriber:
        for found in islice(windows(subscriber, window, patience), count):
            _show(topic, found, domain, as_json)


def windows(
    subscriber: Subscriber[Any], window: float, patience: float | None
) -> Iterator[dict[str, list[int]]]:
    """The ages of the samples that arrive in each window, by machine; empty windows are left out.

    Samples that were published before the start, or that arrived between two windows, do not count:
    they have waited in a history or in the subscriber's queue.

    Args:
        window: seconds.
        patience: seconds without a sample after which the command fails.
    """
    since = time.time_ns()
    last = time.monotonic()
    while True:
        found: dict[str, list[int]] = {}
        subscriber.try_receive_many(_MAX_AT_ONCE)
        end = time.monotonic() + window
        while (left := end - time.monotonic()) > 0:
            try:
                sample = subscriber.receive(left)
            except TimedOut:
                break
            if sample.header.timestamp_ns < since:
                continue
            last = time.monotonic()
            found.setdefault(_machine_of(sample), []).append(_age_of(sample))
        if found:
            yield found
        elif patience is not None and time.monotonic() - last >= patience:
            fail_for_silence(subscriber.topic, patience)


def _show(topic: str, found: dict[str, list[int]], domain: str | None, as_json: bool) -> None:
    uncertainties: Mapping[str, int | None] = clock_uncertainties(domain) if any(found) else {}
    rows = [_delays(machine, found[machine], uncertainties) for machine in sorted(found)]
    if as_json:
        time_ns = time.time_ns()
        for row in rows:
            print_record("delay", {"topic": topic, "time_ns": time_ns, **asdict(row)})
    else:
        print_table(
            (">SAMPLES", ">MIN MS", ">MEAN MS", ">MAX MS", ">STD MS", ">+- MS", "FROM"),
            map(_row, rows),
        )


def _machine_of(sample: Sample[Any]) -> str:
    return sample.header.origin.machine if sample.header.origin else ""


def _age_of(sample: Sample[Any]) -> int:
    return time.time_ns() - sample.header.timestamp_ns


def _delays(machine: str, ages: list[int], uncertainties: Mapping[str, int | None]) -> Delays:
    return Delays(
        machine,
        len(ages),
        min(ages),
        statistics.fmean(ages),
        max(ages),
        statistics.pstdev(ages),
        uncertainties.get(machine) if machine else 0,
    )


def _row(found: Delays) -> tuple[object, ...]:
    times = (found.min_ns, found.mean_ns, found.max_ns, found.std_ns, found.clock_uncertainty_ns)
    return (
        found.samples,
        *("?" if each is None else f"{each / 1e6:.3f}" for each in times),
        found.machine or "here",
    )
