"""``tensorbus topic hz`` and ``bw``: rates from the publishers' counters, without subscribing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from tensorbus._cli.options import ASK, Count, Domain, Json, OptionalTopic, Timeout, Window
from tensorbus._cli.output import fail, looked, print_json, print_table
from tensorbus._inspection.rates import PublisherRate
from tensorbus._inspection.rates import rates as rates_between
from tensorbus._inspection.report import Inspection
from tensorbus._inspection.units import bandwidth_text, bytes_text, rate_text
from tensorbus._topics.listing import list_topics

HZ_EXAMPLES = """\b
Examples:
  tensorbus topic hz                         all topics, once a second
  tensorbus topic hz camera/image --count 1 --window 5"""
BW_EXAMPLES = """\b
Examples:
  tensorbus topic bw                         all topics, once a second
  tensorbus topic bw camera/image --count 1 --json"""


@dataclass(frozen=True)
class TopicRate:
    """A topic's rates, summed over its publishers."""

    topic: str
    hz: float
    bytes_per_second: float
    dropped_per_second: float
    """Over all subscribers."""
    publishers: int
    machines: tuple[str, ...]
    """Those that publish it; "" is this one."""


def hz(
    topic: OptionalTopic = None,
    window: Window = 1.0,
    count: Count = None,
    domain: Domain = None,
    timeout: Timeout = ASK,
    as_json: Json = False,
) -> None:
    """Show how many samples a second are published.

    Reads the publishers' counters: it does not subscribe, and slows nobody down.
    """
    columns = ("TOPIC", ">HZ", ">DROPPED/S", ">PUBLISHERS", "MACHINES")

    def row(rate: TopicRate) -> tuple[object, ...]:
        return (
            rate.topic,
            rate_text(rate.hz),
            rate_text(rate.dropped_per_second),
            rate.publishers,
            machines_text(rate.machines),
        )

    _show(columns, row, topic, window, count, domain, timeout, as_json)


def bw(
    topic: OptionalTopic = None,
    window: Window = 1.0,
    count: Count = None,
    domain: Domain = None,
    timeout: Timeout = ASK,
    as_json: Json = False,
) -> None:
    """Show how many bytes a second are published, in tensors and fields.

    Reads the publishers' counters: it does not subscribe, and slows nobody down.
    """
    columns = ("TOPIC", ">BANDWIDTH", ">HZ", ">SAMPLE", "MACHINES")

    def row(rate: TopicRate) -> tuple[object, ...]:
        return (
            rate.topic,
            bandwidth_text(rate.bytes_per_second),
            rate_text(rate.hz),
            bytes_text(rate.bytes_per_second / rate.hz if rate.hz else None),
            machines_text(rate.machines),
        )

    _show(columns, row, topic, window, count, domain, timeout, as_json)


def _show(
    columns: tuple[str, ...],
    row: Callable[[TopicRate], tuple[object, ...]],
    topic: str | None,
    window: float,
    count: int | None,
    domain: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    named: set[str] = set()

    def source() -> Inspection:
        return looked(domain, timeout, named)

    for found in itertools.islice(watched(source, topic, window), count):
        if topic is not None and not found and not _is_listed(topic, domain):
            fail(f"nobody publishes {topic!r}")
        if as_json:
            print_json([asdict(rate) for rate in found], indent=None)
        else:
            print_table(columns, map(row, found))


def watched(
    source: Callable[[], Inspection],
    topic: str | None,
    window: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[list[TopicRate]]:
    """The rates of one topic, or of all, for one window of so many seconds after the other."""
    before = source()
    if topic is not None and not any(
        publisher.topic == topic
        for process in before.participants
        for publisher in process.publishers
    ):
        yield []  # before a whole window has passed
    while True:
        sleep(window)
        after = source()
        yield summed(rates_between(before, after), topic)
        before = after


def summed(found: list[PublisherRate], topic: str | None) -> list[TopicRate]:
    """By topic."""
    topics: dict[str, list[PublisherRate]] = {}
    for rate in found:
        if topic is None or rate.publisher.topic == topic:
            topics.setdefault(rate.publisher.topic, []).append(rate)
    return [
        TopicRate(
            name,
            sum(rate.hz for rate in rates),
            sum(rate.bytes_per_second for rate in rates),
            sum(rate.dropped_per_second for rate in rates),
            len(rates),
            tuple(sorted({rate.publisher.machine for rate in rates})),
        )
        for name, rates in sorted(topics.items())
    ]


def machines_text(machines: tuple[str, ...]) -> str:
    """The machines that publish a topic; nothing, if that is this one alone."""
    return "" if machines in ((), ("",)) else ", ".join(each or "here" for each in machines)


def _is_listed(topic: str, domain: str | None) -> bool:
    """Does a process publish it that says nothing, because it is stopped?"""
    return any(each.name == topic for each in list_topics(domain))
