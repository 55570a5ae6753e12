"""``tensorbus topic hz`` and ``bw``: rates from the publishers' counters, without subscribing."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from tensorbus._cli.options import ASK, Count, Domain, Json, OptionalTopic, Timeout, Window
from tensorbus._cli.output import fail, inspected, print_table
from tensorbus._cli.records import print_record
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
    """Summed over all subscribers."""
    publishers: int
    machines: tuple[str, ...]
    """The machines that publish it; "" is this machine."""


def _command(
    what: str, columns: tuple[str, ...], row: Callable[[TopicRate], tuple[object, ...]]
) -> Callable[..., None]:
    """A command that shows the rates of one topic, or of all topics."""

    def show(
        topic: OptionalTopic = None,
        window: Window = 1.0,
        count: Count = None,
        domain: Domain = None,
        timeout: Timeout = ASK,
        as_json: Json = False,
    ) -> None:
        named: set[str] = set()

        def source() -> Inspection:
            return inspected(domain, timeout, named)

        for found in itertools.islice(watched(source, topic, window), count):
            if topic is not None and not found and not _is_listed(topic, domain):
                fail(f"topic {topic!r} has no publisher")
            if as_json:
                time_ns = time.time_ns()
                for rate in found:
                    print_record("rate", {"time_ns": time_ns, **asdict(rate)})
            else:
                print_table(columns, map(row, found))

    show.__doc__ = f"""Show how many {what}.

    Reads the publishers' counters: it does not subscribe, and no publisher waits for it.
    """
    return show


def watched(
    source: Callable[[], Inspection],
    topic: str | None,
    window: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[list[TopicRate]]:
    """The rates of one topic, or of all topics, in consecutive windows of `window` seconds.

    If no publisher of the topic replies, the first list is empty, and is yielded at once.
    """
    before = source()
    if topic is not None and not any(
        publisher.topic == topic
        for process in before.participants
        for publisher in process.publishers
    ):
        yield []
    while True:
        sleep(window)
        after = source()
        yield summed(rates_between(before, after), topic)
        before = after


def summed(found: list[PublisherRate], topic: str | None) -> list[TopicRate]:
    """Sums the rates of publishers by topic."""
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
    """The machines that publish a topic, as text; "" if only this machine does."""
    return "" if machines in ((), ("",)) else ", ".join(each or "here" for each in machines)


def _is_listed(topic: str, domain: str | None) -> bool:
    """True if the topic is in the directory: its publisher may be in a suspended process."""
    return any(each.name == topic for each in list_topics(domain))


hz = _command(
    "samples a second are published",
    ("TOPIC", ">HZ", ">DROPPED/S", ">PUBLISHERS", "MACHINES"),
    lambda rate: (
        rate.topic,
        rate_text(rate.hz),
        rate_text(rate.dropped_per_second),
        rate.publishers,
        machines_text(rate.machines),
    ),
)
bw = _command(
    "bytes a second are published, in tensors and fields",
    ("TOPIC", ">BANDWIDTH", ">HZ", ">SAMPLE", "MACHINES"),
    lambda rate: (
        rate.topic,
        bandwidth_text(rate.bytes_per_second),
        rate_text(rate.hz),
        bytes_text(rate.bytes_per_second / rate.hz if rate.hz else None),
        machines_text(rate.machines),
    ),
)
