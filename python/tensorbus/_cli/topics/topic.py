"""``tensorbus topic``: topics, their publishers and their subscribers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

from tensorbus._cli.options import ASK, Domain, Json, Timeout, Topic, group
from tensorbus._cli.output import fail, inspected, named, print_pairs, print_table, process_of
from tensorbus._cli.records import print_record
from tensorbus._cli.topics import delay, echo, pub, rates
from tensorbus._inspection.report import (
    Inspection,
    LinkReport,
    ParticipantReport,
    PublisherReport,
    SubscriberReport,
)
from tensorbus._inspection.units import bytes_text, part_text, shown, time_text
from tensorbus._topics.listing import TopicInfo, list_topics

app = group("Topics: their publishers, subscribers and rates.")

_EXAMPLES = "Example: tensorbus topic list --json | jq -r .topic"
_INFO_EXAMPLES = "Example: tensorbus topic info camera/image"


@dataclass(frozen=True)
class TopicRow:
    """One line of the list."""

    topic: str
    types: tuple[str, ...]
    publishers: int
    subscribers: int
    """Only subscribers of processes that replied."""
    machines: tuple[str, ...]
    """The machines that publish it; "" is this machine."""


@app.command("list", epilog=_EXAMPLES)
def list_(domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False) -> None:
    """List the topics that have a publisher or a subscriber."""
    rows = rows_of(list_topics(domain), inspected(domain, timeout))
    if as_json:
        for row in rows:
            print_record("topic", asdict(row))
        return
    print_table(
        ("TOPIC", "TYPE", ">PUBLISHERS", ">SUBSCRIBERS", "MACHINES"),
        (
            (
                row.topic,
                ", ".join(each.splitlines()[0] for each in row.types),
                row.publishers,
                row.subscribers,
                rates.machines_text(row.machines),
            )
            for row in rows
        ),
    )


def rows_of(
    topics: list[TopicInfo], inspection: Inspection, only: str | None = None
) -> list[TopicRow]:
    """A row for each topic, or for one.

    The list of topics also has publishers of processes without a reply.
    """
    published = {topic.name: topic for topic in topics}
    subscribers = Counter(
        each.topic for process in inspection.participants for each in process.subscribers
    )
    rows = []
    for name in sorted({*published, *subscribers} if only is None else {only}):
        topic = published.get(name, TopicInfo(name, ()))
        machines = {publisher.machine for publisher in topic.publishers}
        rows.append(
            TopicRow(
                name,
                tuple(each for each in topic.types if each),
                len(topic.publishers),
                subscribers[name],
                tuple(sorted(machines)),
            )
        )
    return rows


@app.command("info", epilog=_INFO_EXAMPLES)
def info(
    topic: Topic, domain: Domain = None, timeout: Timeout = ASK, as_json: Json = False
) -> None:
    """Show the publishers and subscribers of a topic, and the samples that each holds."""
    inspection = inspected(domain, timeout)
    publishers = [
        (process, publisher)
        for process in inspection.participants
        for publisher in process.publishers
        if publisher.topic == topic
    ]
    subscribers = [
        (process, subscriber)
        for process in inspection.participants
        for subscriber in process.subscribers
        if subscriber.topic == topic
    ]
    listed = {each.name: each for each in list_topics(domain)}.get(topic, TopicInfo(topic, ()))
    if not (publishers or subscribers or listed.publishers):
        fail(f"topic {topic!r} has no publisher and no subscriber")
    answered = {process.participant for process, _ in publishers}
    silent = [each for each in listed.publishers if each.participant not in answered]
    if as_json:
        (row,) = rows_of([listed], inspection, topic)
        print_record("topic", asdict(row))
        for process, publisher in publishers:
            print_record("publisher", named(process, publisher))
        for each in silent:
            print_record("silent_publisher", asdict(each))
        for process, subscriber in subscribers:
            print_record("subscriber", named(process, subscriber))
        return
    for definition in listed.types:
        name, *fields = definition.splitlines() or ["any"]
        print_pairs([("type", name)])
        for field in fields:
            print(f"  {shown(field)}")
    for process, publisher in publishers:
        _print_publisher(process, publisher)
    for each in silent:
        print_pairs([("publisher", f"process {each.pid}, which did not reply")])
    for process, subscriber in subscribers:
        _print_subscriber(process, subscriber)


def _print_publisher(process: ParticipantReport, publisher: PublisherReport) -> None:
    stats = publisher.stats
    place = f", machine {publisher.machine}" if publisher.machine else ""
    node = f", node {publisher.node}" if publisher.node else ""
    names = [name for name in ("reliable", "shared", "isolated") if getattr(publisher, name)]
    options = [f"depth {publisher.depth}", f"history {publisher.history}", *names]
    size = bytes_text(publisher.bytes_sent)
    counters = f"sent {stats.sent} ({size}), dropped {stats.dropped}, timed out {stats.timed_out}"
    print()
    print_pairs([("publisher", f"{process_of(process)}{node}{place}")])
    print_pairs([("  options", ", ".join(options)), ("  counters", counters)])
    if publisher.links:
        print_table(
            ("  TO", "NODE", ">WAIT", ">HELD", ">BYTES", ">OLDEST", ">DROPPED", "STATE"),
            (_link_row(link) for link in publisher.links),
        )


def _link_row(link: LinkReport) -> tuple[object, ...]:
    return (
        f"  {process_of(link.subscriber)}",
        link.node,
        part_text(link.waiting, link.depth),
        part_text(link.held, link.max_held),
        bytes_text(link.held_bytes),
        time_text(link.oldest_held_ns),
        link.dropped,
        _state_of(link),
    )


def _state_of(link: LinkReport) -> str:
    if link.cut_off:
        return "cut off"
    if link.blocked_ns:
        return f"has blocked the publisher for {time_text(link.blocked_ns)}"
    return "reliable" if link.reliable else ""


def _print_subscriber(process: ParticipantReport, subscriber: SubscriberReport) -> None:
    stats = subscriber.stats
    node = f", node {subscriber.node}" if subscriber.node else ""
    counters = (
        f"received {stats.received}, missed {stats.missed}, held {stats.held}, "
        f"publishers {stats.publishers}, refused {stats.refused}"
    )
    print()
    print_pairs([("subscriber", f"{process_of(process)}{node}"), ("  counters", counters)])
    if stats.last_refusal:
        print_pairs([("  last refusal", stats.last_refusal)])


app.command("echo", epilog=echo.EXAMPLES)(echo.echo)
app.command("hz", epilog=rates.HZ_EXAMPLES)(rates.hz)
app.command("bw", epilog=rates.BW_EXAMPLES)(rates.bw)
app.command("delay", epilog=delay.EXAMPLES)(delay.delay)
app.command("pub", epilog=pub.EXAMPLES)(pub.pub)
