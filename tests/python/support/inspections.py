"""Inspections made by hand, for what shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tensorbus._base.stats import PublisherStats, QueueStats, SubscriberStats
from tensorbus._inspection.report import (
    BorrowedReport,
    Inspection,
    LentReport,
    LinkReport,
    MemoryReport,
    ParticipantReport,
    PeerName,
    PublisherReport,
    QueueClientReport,
    QueueReport,
    SubscriberReport,
)

SECOND = 1_000_000_000
MIB = 1 << 20
FRAME = 1920 * 1080 * 3
FRAMES = "demo.Frame\nimage: tensor\nnumber: int"


def name_of(number: int) -> str:
    """The id of a participant."""
    return f"{number:032x}"


def peer(number: int, process: str = "python3") -> PeerName:
    return PeerName(name_of(number), number, process)


def link(subscriber: PeerName, **changes: Any) -> LinkReport:
    made = LinkReport(
        subscriber=subscriber,
        node="",
        depth=8,
        max_held=256,
        reliable=True,
        delivered=0,
        waiting=0,
        held=0,
        held_bytes=0,
        oldest_held_ns=0,
        dropped_depth=0,
        dropped_held=0,
        dropped_unsent=0,
        blocked_ns=0,
        cut_off=False,
    )
    return replace(made, **changes)


def publisher_stats(**changes: int) -> PublisherStats:
    return PublisherStats(**dict.fromkeys(PublisherStats.__dataclass_fields__, 0) | changes)


def publisher(
    topic: str, *links: LinkReport, sent: int = 0, dropped: int = 0, **changes: Any
) -> PublisherReport:
    made = PublisherReport(
        topic=topic,
        number=0,
        node="",
        type="",
        machine="",
        origin="",
        depth=8,
        history=0,
        reliable=True,
        shared=False,
        isolated=False,
        bytes_sent=sent * FRAME,
        stats=publisher_stats(sent=sent, dropped_depth=dropped, subscribers=len(links)),
        links=links,
    )
    return replace(made, **changes)


def subscriber(topic: str, **changes: Any) -> SubscriberReport:
    counters = dict.fromkeys(SubscriberStats.__dataclass_fields__, 0)
    made = SubscriberReport(
        topic=topic,
        node="",
        type="",
        depth=8,
        max_held=256,
        reliable=True,
        access="private",
        stats=SubscriberStats(**{**counters, "last_refusal": ""}),  # type: ignore[arg-type]
        publishers=(),
    )
    return replace(made, **changes)


def queue(name: str, *clients: QueueClientReport, items: int = 0, **changes: Any) -> QueueReport:
    made = QueueReport(
        name=name,
        service="",
        number=0,
        machine="",
        maxsize=16,
        max_bytes=0,
        redeliver=False,
        shut_down=False,
        in_hand=sum(client.in_hand for client in clients),
        redelivered=0,
        stats=QueueStats(items=items, unfinished=items, lost=0, bytes=items * MIB),
        clients=clients,
    )
    return replace(made, **changes)


def memory(
    *lent: LentReport, borrowed: tuple[BorrowedReport, ...] = (), **changes: Any
) -> MemoryReport:
    made = MemoryReport(
        segments=1,
        blocks=8,
        used_bytes=64 * MIB,
        reserved_bytes=96 * MIB,
        budget_bytes=1024 * MIB,
        inherited_bytes=0,
        private_bytes=0,
        file_bytes=0,
        lent=lent,
        borrowed=borrowed,
        devices=(),
    )
    return replace(made, **changes)


def participant(number: int, *nodes: str, **changes: Any) -> ParticipantReport:
    """One whose pid is its number."""
    made = ParticipantReport(
        participant=name_of(number),
        pid=number,
        process="python3",
        error="",
        version="0.1.0",
        age_ns=75 * SECOND,
        nodes=nodes,
        topics=(),
        publishers=(),
        subscribers=(),
        queues=(),
        shares=(),
        memory=memory(),
    )
    return replace(made, **changes)


STOPPED = "no answer within 1.0 s: the process is stopped"


def silent(number: int, *nodes: str, topics: tuple[str, ...] = ()) -> ParticipantReport:
    """One that was stopped."""
    return participant(number, *nodes, error=STOPPED, memory=None, topics=topics)


def inspection(*participants: ParticipantReport, at: float = 1.0) -> Inspection:
    """Taken so many seconds after 1970."""
    return Inspection("/run/user/1000/tensorbus/default", round(at * SECOND), participants)


CAMERA, DETECTOR, VIEWER, BRIDGE, TRAINER = 4100, 4180, 4242, 4300, 4400


def robot(seconds: float) -> Inspection:
    """A camera that a viewer holds up, a bridge to a GPU machine and a queue that is full.

    Args:
        seconds: since the camera began, with 30 frames in each.
    """
    sent = round(30 * seconds)
    viewer = link(peer(VIEWER), node="viewer", waiting=8, held=4, blocked_ns=round(3.2 * SECOND))
    detector = link(peer(DETECTOR), node="detector", waiting=1, held=1, delivered=sent)
    image = publisher(
        "camera/image",
        detector,
        viewer,
        sent=sent,
        dropped=round(2 * seconds),
        node="camera",
        type=FRAMES,
    )
    features = publisher("model/features", sent=2 * sent, machine="gpu-host", origin="a.1")
    getting = QueueClientReport(peer(TRAINER), in_hand=3, waiting_puts=0, waiting_gets=0)
    putting = QueueClientReport(peer(DETECTOR), in_hand=0, waiting_puts=1, waiting_gets=0)
    return inspection(
        participant(
            CAMERA,
            "camera",
            publishers=(image,),
            memory=memory(
                LentReport(peer(VIEWER), 12, 12 * FRAME, round(3.6 * SECOND)),
                LentReport(peer(DETECTOR), 2, 2 * FRAME, SECOND // 20),
            ),
        ),
        participant(
            DETECTOR,
            "detector",
            subscribers=(subscriber("camera/image", node="detector"),),
            memory=memory(borrowed=(BorrowedReport(peer(CAMERA), 1, 96 * MIB, 2),)),
        ),
        silent(VIEWER, "viewer"),
        participant(BRIDGE, process="tensorbus", publishers=(features,)),
        participant(TRAINER, "trainer", queues=(queue("batches", getting, putting, items=16),)),
        at=1_700_000_000 + seconds,
    )


def busy(topics: int, seconds: float) -> Inspection:
    """So many topics, 10 in each process, each with a subscriber in the next process."""
    count = max(topics // 10, 1)
    return inspection(
        *(_publishers_of(number, count, topics // count, seconds) for number in range(count)),
        at=1_700_000_000 + seconds,
    )


def _publishers_of(number: int, count: int, topics: int, seconds: float) -> ParticipantReport:
    other = peer(10_000 + (number + 1) % count)
    return participant(
        10_000 + number,
        f"node_{number}",
        publishers=tuple(
            publisher(
                f"robot/{number:03}/sensor/{place}",
                link(other, waiting=place % 8),
                sent=round((1 + number + place) * seconds * 1.37),
                number=place,
            )
            for place in range(topics)
        ),
        memory=memory(LentReport(other, 1, MIB, SECOND)),
    )
