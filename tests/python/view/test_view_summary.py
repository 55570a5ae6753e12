"""The figures and the picture of a domain, from inspections made by hand."""

from __future__ import annotations

from typing import Any

from support.inspections import (
    SECOND,
    STOPPED,
    inspection,
    link,
    memory,
    name_of,
    participant,
    peer,
    publisher,
    silent,
    subscriber,
)
from tensorbus._inspection.report import Inspection, LentReport, PeerName
from tensorbus._view import graph
from tensorbus._view.layout import layout
from tensorbus._view.summary import summary
from tensorbus._view.traffic import without

CAMERA, MODEL, SCREEN = 1, 2, 3


def box(number: int, node: str = "") -> str:
    """The id of a process in the graph."""
    return f"p {name_of(number)} {node}"


def camera(seconds: int) -> Inspection:
    """A camera with 30 Hz, a model that gets all of it, and a screen that gets a third."""
    screen = silent(SCREEN)
    model = participant(MODEL, "detector", subscribers=(subscriber("image", node="detector"),))
    blocked = {"dropped_depth": 20 * seconds, "blocked_ns": SECOND}
    image = publisher(
        "image",
        link(peer(MODEL), delivered=30 * seconds, node="detector"),
        link(peer(SCREEN), delivered=10 * seconds, **blocked),
        sent=30 * seconds,
        bytes_sent=3000 * seconds,
        type="Image\nwidth: int",
    )
    owner = participant(
        CAMERA,
        process="camera",
        publishers=(image,),
        memory=memory(LentReport(peer(MODEL), 2, 50, 0)),
    )
    return inspection(owner, model, screen, at=seconds)


def edges(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(edge["from"], edge["to"]): edge for edge in found["graph"]["edges"]}


def test_rates_are_those_between_two_inspections() -> None:
    found = summary(camera(2), camera(4))
    (topic,) = found["topics"]
    assert (topic["hz"], topic["bytes"], topic["type"]) == (30, 3000, "Image")
    assert topic["blocked"]
    sent = edges(found)[box(CAMERA), "t image"]
    assert (sent["hz"], sent["bytes"]) == (30, 3000)
    seen = edges(found)["t image", box(SCREEN)]
    assert (seen["hz"], seen["dropped"], seen["blocked"]) == (10, 20, True)
    assert edges(found)["t image", box(MODEL, "detector")]["hz"] == 30


def test_a_process_can_be_left_out() -> None:
    found = summary(without(2, camera(2)), without(2, camera(4)))
    assert [row["process"] for row in found["processes"]] == ["camera", "python3"]
    assert set(edges(found)) == {(box(CAMERA), "t image"), ("t image", box(SCREEN))}
    assert found["topics"][0]["dropped"] == 20
    assert found["held"] == []
    (topic,) = summary(without(3, camera(2)), without(3, camera(4)))["topics"]
    assert (topic["dropped"], topic["blocked"]) == (0, False)


def test_the_first_inspection_has_no_rates() -> None:
    found = summary(None, camera(2))
    assert found["topics"][0]["hz"] is None
    assert edges(found)[box(CAMERA), "t image"]["hz"] is None


def test_a_process_that_does_not_answer_is_in_the_picture() -> None:
    found = summary(None, camera(2))
    (found_box,) = [it for it in found["graph"]["boxes"] if it["id"] == box(SCREEN)]
    assert found_box["error"]
    assert [row["error"] for row in found["processes"]] == ["", "", STOPPED]


def test_it_says_who_holds_whose_memory() -> None:
    (row,) = summary(None, camera(2))["held"]
    assert (row["owner"], row["holder"], row["bytes"]) == ("camera 1", "python3 2", 50)


def test_a_publisher_that_came_and_one_that_went_do_no_harm() -> None:
    before = inspection(participant(1, publishers=(publisher("old", sent=5),)))
    after = inspection(participant(2, publishers=(publisher("new", sent=5),)), at=2)
    (topic,) = summary(before, after)["topics"]
    assert (topic["name"], topic["hz"]) == ("new", None)


def test_a_subscriber_whose_participant_is_not_known_is_drawn() -> None:
    owner = participant(1, publishers=(publisher("t", link(PeerName("", 77, ""))),))
    found = summary(None, inspection(owner))
    assert ("t t", "p pid 77 ") in edges(found)


def two_subscribers(first: int, second: int, at: int) -> Inspection:
    """Of one process, with equal options, which got so many samples."""
    sent = publisher(
        "t", link(peer(2), delivered=first), link(peer(2), delivered=second), sent=first
    )
    reader = participant(2, subscribers=(subscriber("t"), subscriber("t")))
    return inspection(participant(1, publishers=(sent,)), reader, at=at)


def test_the_rates_of_equal_subscribers_of_a_process_are_added() -> None:
    found = summary(two_subscribers(100_000, 10, 1), two_subscribers(100_030, 20, 2))
    assert edges(found)["t t", box(2)]["hz"] == 40
    assert found["topics"][0]["subscribers"] == 2


def test_a_subscriber_that_was_opened_again_has_no_negative_rate() -> None:
    found = summary(two_subscribers(100_000, 10, 1), two_subscribers(100_030, 0, 2))
    assert edges(found)["t t", box(2)]["hz"] == 20
    found = summary(two_subscribers(100_000, 10, 1), two_subscribers(5, 5, 2))
    assert edges(found)["t t", box(2)]["hz"] == 0


def test_a_publisher_that_is_kept_in_step_is_not_red() -> None:
    sent = publisher("t", link(peer(2), blocked_ns=SECOND // 4))
    found = summary(None, inspection(participant(1, publishers=(sent,))))
    assert not found["topics"][0]["blocked"]


def test_all_holders_without_a_participant_are_listed() -> None:
    lent = [LentReport(PeerName("", 0, ""), leases, leases, 0) for leases in (1, 2)]
    found = summary(None, inspection(participant(1, memory=memory(*lent))))
    assert [row["bytes"] for row in found["held"]] == [2, 1]


def test_an_empty_domain_has_an_empty_picture() -> None:
    found = summary(None, inspection())
    assert found["graph"] == {"width": 0, "height": 0, "boxes": [], "edges": []}


def test_many_topics_between_the_same_processes_are_one_box() -> None:
    reader = participant(2, subscribers=tuple(subscriber(f"log/{n}") for n in range(100)))
    writer = participant(1, publishers=tuple(publisher(f"log/{n}", number=n) for n in range(101)))
    graph = summary(None, inspection(writer, reader))["graph"]
    topics = [box for box in graph["boxes"] if box["kind"] == "topic"]
    assert sorted(len(box["topics"]) for box in topics) == [1, 100]  # nobody reads log/100
    assert "log/" in topics[0]["label"]


def thousand(seconds: int) -> Inspection:
    """1,000 topics of 20 processes, each read by another process."""
    return inspection(
        *(
            participant(
                number + 1,
                publishers=tuple(
                    publisher(
                        f"p{number}/topic/{topic}",
                        link(peer((number + topic) % 20 + 1), delivered=topic * seconds),
                        number=topic,
                        sent=topic * seconds,
                    )
                    for topic in range(50)
                ),
            )
            for number in range(20)
        ),
        at=seconds,
    )


def test_of_1000_topics_there_is_a_picture_and_all_rates() -> None:
    found = summary(thousand(1), thousand(2))
    assert len(found["topics"]) == 1000
    assert found["topics"][-1]["hz"] == 9.0  # p9/topic/9, the last by name
    assert len(found["graph"]["boxes"]) <= 20 + 20 * 20


def test_the_places_are_found_once_while_only_the_rates_change() -> None:
    summary(None, thousand(1))
    known = graph._layout.cache_info()
    summary(thousand(1), thousand(3))
    now = graph._layout.cache_info()
    assert (now.hits, now.misses) == (known.hits + 1, known.misses)


def overlaps(boxes: list[Any]) -> bool:
    return any(
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
        for index, one in enumerate(boxes)
        for other in boxes[:index]
    )


def test_no_box_of_a_layout_covers_another_whatever_the_edges() -> None:
    names = [str(number) for number in range(12)]
    rings = [
        (one, other) for one in names for other in names if (int(one) * 7 + int(other)) % 5 < 2
    ]
    found = layout({name: (40 + int(name), 20) for name in names}, rings)
    assert not overlaps(list(found.boxes.values()))
    assert set(found.edges) == {(one, other) for one, other in rings if one != other}
    assert all(box.x >= 0 and box.x + box.width <= found.width for box in found.boxes.values())


def test_a_cycle_is_drawn_with_one_edge_back() -> None:
    sizes = {name: (10.0, 10.0) for name in "abc"}
    found = layout(sizes, [("a", "b"), ("b", "c"), ("c", "a")])
    assert [found.boxes[name].x for name in "abc"] == sorted(found.boxes[name].x for name in "abc")
    back = found.edges["c", "a"]
    assert back[0][0] > back[-1][0]
