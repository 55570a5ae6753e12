"""Who holds others up, in words."""

from __future__ import annotations

from typing import Any

import pytest

from support import inspections as made
from tensorbus._inspection.report import LentReport, LinkReport, ParticipantReport
from tensorbus._inspection.troubles import Trouble, find_troubles

VIEWER = made.peer(4242, "python3")
GIB = 1024 * made.MIB


def troubles(*participants: ParticipantReport) -> list[Trouble]:
    return find_troubles(made.inspection(*participants))


def told(*participants: ParticipantReport) -> list[str]:
    return [str(trouble) for trouble in troubles(*participants)]


def camera(*links: LinkReport, node: str = "camera", **changes: Any) -> ParticipantReport:
    published = made.publisher("camera/image", *links, node=node, **changes)
    return made.participant(4100, publishers=(published,))


def test_the_robot_has_a_stopped_viewer_that_the_camera_waits_for_and_a_full_queue() -> None:
    assert [str(trouble) for trouble in find_troubles(made.robot(4.0))] == [
        f"viewer (pid 4242) cannot be inspected: {made.STOPPED}",
        "viewer (pid 4242) has had no room on camera/image for 3.2 s: camera waits",
        "queue batches is full: 16/16 items, 1 put waits",
    ]


def test_subscribers_that_keep_up_are_no_trouble() -> None:
    keeps_up = made.link(VIEWER, waiting=7, held=255, blocked_ns=made.SECOND // 10)
    newest_only = made.link(VIEWER, reliable=False, depth=1, waiting=1, dropped_depth=900)
    assert troubles(camera(keeps_up, newest_only)) == []


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (
            {"blocked_ns": 65 * made.SECOND},
            "has had no room on camera/image for 1 min 5 s: camera waits",
        ),
        ({"held": 256}, "holds 256 of 256 samples of camera/image"),
        ({"held": 1, "max_held": 1}, "holds 1 of 1 sample of camera/image"),
        (
            {"cut_off": True, "held": 3, "waiting": 5, "blocked_ns": made.SECOND},
            "was cut off from camera/image and still holds 8 samples",
        ),
    ],
)
def test_a_subscriber_holds_its_publisher_up(link: dict[str, Any], words: str) -> None:
    (trouble,) = troubles(camera(made.link(VIEWER, node="viewer", **link), machine="robot"))
    assert str(trouble) == f"viewer (pid 4242) {words}"
    assert (trouble.process, trouble.topic, trouble.machine) == (
        VIEWER.participant,
        "camera/image",
        "robot",
    )


def test_a_process_is_named_by_its_nodes_or_else_by_its_program() -> None:
    link = made.link(VIEWER, held=256)
    words = "holds 256 of 256 samples of camera/image"
    assert told(camera(link)) == [f"python3 (pid 4242) {words}"]
    assert told(camera(link), made.participant(4242, "a", "b")) == [f"a, b (pid 4242) {words}"]
    unknown = made.link(made.PeerName("", 0), held=256)
    assert told(camera(unknown)) == [f"a process {words}"]


def test_a_publisher_without_a_node_is_named_by_its_program() -> None:
    (sentence,) = told(camera(made.link(VIEWER, blocked_ns=made.SECOND), node=""))
    assert sentence.endswith("for 1.0 s: python3 waits")


def test_what_lasts_longest_comes_first_after_the_processes_that_say_nothing() -> None:
    links = (made.link(made.peer(pid, "p"), blocked_ns=pid * made.SECOND) for pid in (2, 3, 1))
    assert [trouble.subject for trouble in troubles(camera(*links), made.silent(9, "x"))] == [
        "x (pid 9)",
        "p (pid 3)",
        "p (pid 2)",
        "p (pid 1)",
    ]


def test_a_process_that_holds_most_of_a_budget_is_named() -> None:
    def owner(used: int, *lent: LentReport) -> ParticipantReport:
        memory = made.memory(*lent, used_bytes=used, budget_bytes=4 * GIB)
        return made.participant(4100, "camera", memory=memory)

    much = LentReport(VIEWER, 500, 3 * GIB, made.SECOND)
    little = LentReport(made.peer(5), 500, GIB, 9 * made.SECOND)
    assert told(owner(4 * GIB, little, much)) == [
        "python3 (pid 4242) holds 3.0 GiB of the 4.0 GiB that camera (pid 4100) may use"
    ]
    assert told(owner(3 * GIB, little, much)) == []  # there is room
    assert told(owner(4 * GIB, little)) == []  # the owner itself has most of it


def test_a_queue_that_puts_wait_for_is_full() -> None:
    waiting = made.QueueClientReport(VIEWER, in_hand=0, waiting_puts=2, waiting_gets=0)
    full = made.participant(1, queues=(made.queue("jobs", waiting, waiting, items=16),))
    (trouble,) = troubles(full)
    assert str(trouble) == "queue jobs is full: 16/16 items, 4 puts wait"
    assert trouble.queue == (full.participant, 0)
    assert troubles(made.participant(1, queues=(made.queue("jobs", items=16),))) == []
