"""``tensorbus topic delay``: how old samples are when they arrive."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from tensorbus._cli.bridge_status import clock_uncertainties
from tensorbus._cli.echo import Patience, samples_of
from tensorbus._cli.options import Count, Domain, Json, Topic, Window
from tensorbus._cli.output import print_json, print_table
from tensorbus._topics.sample import Sample

EXAMPLES = """\b
Examples:
  tensorbus topic delay camera/image
  tensorbus topic delay camera/image --window 10 --count 1 --json"""


@dataclass(frozen=True)
class Delays:
    """Of the samples of one machine that came in a window, in nanoseconds."""

    machine: str
    """Where they were published; "": on this one."""
    samples: int
    min_ns: float
    mean_ns: float
    max_ns: float
    std_ns: float
    clock_uncertainty_ns: int | None
    """By which all of them may be wrong together; None: it is not known."""


def delay(
    topic: Topic,
    window: Window = 1.0,
    count: Count = None,
    patience: Patience = None,
    as_json: Json = False,
    domain: Domain = None,
) -> None:
    """Show how much time passes from publishing a sample to receiving it here.

    No publisher waits for it. Of samples of another machine, the bridge has put the time of
    publishing into this machine's clock; +- says how far off that may be.
    """
    samples = samples_of(topic, None, patience, domain, depth=64)
    ages = ((_machine_of(sample), _age_of(sample)) for sample in samples)
    for found in islice(windows(ages, window), count):
        uncertainties: Mapping[str, int | None] = clock_uncertainties(domain) if any(found) else {}
        rows = [_delays(machine, found[machine], uncertainties) for machine in sorted(found)]
        if as_json:
            print_json([asdict(row) for row in rows], indent=None)
        else:
            print_table(
                (">SAMPLES", ">MIN MS", ">MEAN MS", ">MAX MS", ">STD MS", ">+- MS", "FROM"),
                map(_row, rows),
            )


def windows(ages: Iterable[tuple[str, int]], window: float) -> Iterator[dict[str, list[int]]]:
    """The ages of the samples that come within so many seconds, by machine.

    A window ends with the first sample after it.
    """
    found: dict[str, list[int]] = {}
    end = time.monotonic() + window
    for machine, age in ages:
        if time.monotonic() >= end and found:
            yield found
            found, end = {}, time.monotonic() + window
        found.setdefault(machine, []).append(age)


def _machine_of(sample: Sample[Any]) -> str:
    return sample.header.origin.machine if sample.header.origin else ""


def _age_of(sample: Sample[Any]) -> int:
    return time.time_ns() - sample.header.timestamp_ns


def _delays(
    machine: str, ages: list[int], uncertainties: Mapping[str, int | None]
) -> Delays:
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
