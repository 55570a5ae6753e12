"""What the tables of `tensorbus top` say of two inspections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support import inspections as made
from tensorbus._inspection.report import BorrowedReport, Inspection, LentReport, QueueClientReport
from tensorbus._inspection.units import short, shown
from tensorbus._top.columns import Page, Subject, Table, matches
from tensorbus._top.pages import domain_page, page_of
from tensorbus._top.snapshot import Moment, Snapshot
from tensorbus._top.usage import Usage


def snapshot(before: Inspection | None, after: Inspection) -> Snapshot:
    return Snapshot(before and Moment(before), Moment(after))


def texts(table: Table[Any]) -> list[dict[str, str]]:
    """What is shown, by the titles of the columns."""
    return [{column.title: column.text(row) for column in table.columns} for row in table.rows()]


def table_of(page: Page | None, name: str) -> list[dict[str, str]]:
    assert page is not None
    (table,) = (table for table in page.tables if table.name == name)
    return texts(table)


def rows_of(shown: Snapshot, name: str) -> list[dict[str, str]]:
    return table_of(domain_page(shown), name)


ROBOT = snapshot(made.robot(2.0), made.robot(4.0))


def test_a_topic_has_its_rates_and_the_subscriber_that_lags_most() -> None:
    image, features = rows_of(ROBOT, "Topics")
    assert image == {
        "topic": "camera/image",
        "type": "demo.Frame",
        "machine": "here",
        "Hz": "30.0",
        "bandwidth": "178.0 MiB/s",
        "drops/s": "2.0",
        "subs": "2",
        "lag": "8/8",
        "why": "viewer (pid 4242) has had no room on camera/image for 3.2 s: camera waits",
    }
    assert (features["machine"], features["Hz"], features["type"]) == ("gpu-host", "60.0", "")
    assert (features["lag"], features["why"]) == ("0", "")


def test_the_first_inspection_has_no_rates() -> None:
    image, _ = rows_of(snapshot(None, made.robot(2.0)), "Topics")
    assert (image["Hz"], image["bandwidth"], image["drops/s"]) == ("-", "-", "-")
    assert image["lag"] == "8/8"


def test_the_publishers_of_a_topic_on_one_machine_are_one_row() -> None:
    def at(seconds: float) -> Inspection:
        owners = (
            made.participant(pid, publishers=(made.publisher("t", sent=round(10 * pid * seconds)),))
            for pid in (1, 2)
        )
        return made.inspection(*owners, at=seconds)

    (row,) = rows_of(snapshot(at(1.0), at(2.0)), "Topics")
    assert (row["topic"], row["Hz"]) == ("t", "30.0")


def test_a_topic_without_publishers_is_shown() -> None:
    waiting = made.participant(1, subscribers=(made.subscriber("t", type="demo.Frame\nx: int"),))
    (row,) = rows_of(snapshot(None, made.inspection(waiting)), "Topics")
    assert (row["topic"], row["type"], row["Hz"], row["subs"]) == ("t", "demo.Frame", "-", "1")


def test_a_topic_whose_publisher_does_not_answer_is_shown_in_red() -> None:
    shown = snapshot(None, made.inspection(made.silent(4100, "camera", topics=("t",))))
    (row,) = rows_of(shown, "Topics")
    assert (row["topic"], row["Hz"]) == ("t", "-")
    assert row["why"] == f"camera (pid 4100) cannot be inspected: {made.STOPPED}"
    assert page_of(shown, Subject("topic", "t"))


def test_a_publisher_that_came_between_two_inspections_has_no_rate_yet() -> None:
    after = made.inspection(made.participant(1, publishers=(made.publisher("t", sent=5),)), at=2.0)
    (row,) = rows_of(snapshot(made.inspection(at=1.0), after), "Topics")
    assert row["Hz"] == "-"


def test_a_process_that_vanished_is_in_no_table() -> None:
    before, after = made.robot(2.0), made.robot(4.0)
    after = replace(after, participants=after.participants[1:])
    shown = snapshot(before, after)
    assert [row["topic"] for row in rows_of(shown, "Topics")] == ["model/features", "camera/image"]
    assert "camera" not in [row["process"] for row in rows_of(shown, "Processes")]
    assert page_of(shown, Subject("process", made.name_of(made.CAMERA))) is None


def test_a_process_has_its_part_of_the_machine_and_what_it_holds_of_others() -> None:
    usage = [
        {made.CAMERA: Usage(second, 7, 0.25 * second, 300 * made.MIB)} for second in (10.0, 12.0)
    ]
    pair = (Moment(made.robot(n), it) for n, it in zip((2.0, 4.0), usage, strict=True))
    camera, detector, viewer, *_ = rows_of(Snapshot(*pair), "Processes")
    assert camera == {
        "process": "camera",
        "pid": "4100",
        "program": "python3",
        "CPU %": "25.0",
        "RSS": "300.0 MiB",
        "used": "64.0 MiB",
        "lent": "83.1 MiB",
        "holds": "0 B",
        "oldest": "-",
        "why": "",
    }
    assert (detector["holds"], detector["oldest"], detector["CPU %"]) == ("11.9 MiB", "50 ms", "-")
    assert (viewer["holds"], viewer["oldest"]) == ("71.2 MiB", "3.6 s")  # as the camera says
    assert (viewer["used"], viewer["lent"]) == ("-", "-")
    assert viewer["why"] == f"cannot be inspected: {made.STOPPED}"


def test_another_process_with_the_same_pid_has_no_use_of_the_processor_yet() -> None:
    first, other = Usage(10.0, 7, 90.0, 0), Usage(11.0, 8, 0.5, 0)
    pair = (Moment(made.robot(2.0), {made.CAMERA: it}) for it in (first, other))
    assert rows_of(Snapshot(*pair), "Processes")[0]["CPU %"] == "-"


def test_a_queue_has_what_waits_and_who_waits() -> None:
    (row,) = rows_of(ROBOT, "Queues")
    assert row == {
        "queue": "batches",
        "process": "trainer (pid 4400)",
        "machine": "here",
        "items": "16/16",
        "bytes": "16.0 MiB",
        "in hand": "3",
        "again": "0",
        "lost": "0",
        "puts": "1",
        "gets": "0",
        "why": "is full: 16/16 items, 1 put waits",
    }


def test_a_queue_without_a_name_has_its_service_or_its_number() -> None:
    queues = made.queue("", service="detect"), made.queue("", number=3, maxsize=0)
    shown = snapshot(None, made.inspection(made.participant(1, queues=queues)))
    assert [(row["queue"], row["items"]) for row in rows_of(shown, "Queues")] == [
        ("detect", "0/16"),
        ("#3", "0"),
    ]


def test_the_machines_are_this_one_and_those_of_mirrors() -> None:
    here, other = rows_of(ROBOT, "Machines")
    assert (here["machine"], here["through"], here["topics"]) == ("here", "5 processes", "1")
    assert (here["Hz"], here["queues"]) == ("30.0", "1")
    assert (other["machine"], other["through"]) == ("gpu-host", "tensorbus (pid 4300)")
    assert (other["topics"], other["Hz"], other["bandwidth"]) == ("1", "60.0", "356.0 MiB/s")
    page = page_of(ROBOT, Subject("machine", "gpu-host"))
    assert [row["topic"] for row in table_of(page, "Topics")] == ["model/features"]
    assert table_of(page, "Queues") == []
    page = page_of(ROBOT, Subject("machine", ""))
    assert [row["topic"] for row in table_of(page, "Topics")] == ["camera/image"]


def test_the_page_of_a_topic_has_its_publishers_links_and_subscribers() -> None:
    page = page_of(ROBOT, Subject("topic", "camera/image"))
    assert page
    assert (page.title, page.about) == ("topic camera/image", "of demo.Frame")
    detector, viewer = table_of(page, "Links")
    assert (detector["subscriber"], detector["lag"], detector["why"]) == (
        "detector (pid 4180)",
        "1/8",
        "",
    )
    assert (viewer["publisher"], viewer["held"], viewer["no room"]) == (
        "camera (pid 4100)",
        "4/256",
        "3.2 s",
    )
    assert viewer["why"].startswith("has had no room")
    (publisher,) = table_of(page, "Publishers")
    assert (publisher["node"], publisher["sent"], publisher["Hz"]) == ("camera", "120", "30.0")
    (subscriber,) = table_of(page, "Subscribers")
    assert subscriber["process"] == "detector (pid 4180)"


def test_the_page_of_a_process_has_its_endpoints_and_its_memory_by_peer() -> None:
    page = page_of(ROBOT, Subject("process", made.name_of(made.CAMERA)))
    assert page
    assert page.title == "camera (pid 4100)"
    assert "64.0 MiB used" in page.about
    assert "96.0 MiB reserved of 1.0 GiB" in page.about
    assert [row["topic"] for row in table_of(page, "Publishers")] == ["camera/image"]
    assert table_of(page, "Lent to")[0] == {
        "process": "viewer (pid 4242)",
        "leases": "12",
        "bytes": "71.2 MiB",
        "oldest": "3.6 s",
    }
    page = page_of(ROBOT, Subject("process", made.name_of(made.DETECTOR)))
    assert table_of(page, "Has of") == [
        {"process": "camera (pid 4100)", "leases": "2", "mapped": "96.0 MiB", "segments": "1"}
    ]


def test_the_page_of_a_process_that_does_not_answer_says_so() -> None:
    page = page_of(ROBOT, Subject("process", made.name_of(made.VIEWER)))
    assert page
    assert (page.title, page.about) == ("viewer (pid 4242)", made.STOPPED)
    assert [table.rows() for table in page.tables] == [[], [], [], [], []]


def test_the_page_of_a_queue_has_its_clients() -> None:
    page = page_of(ROBOT, Subject("queue", made.name_of(made.TRAINER), 0))
    assert page
    assert page.title == "queue batches"
    assert table_of(page, "Clients") == [
        {"process": "trainer (pid 4400)", "in hand": "3", "puts wait": "0", "gets wait": "0"},
        {"process": "detector (pid 4180)", "in hand": "0", "puts wait": "1", "gets wait": "0"},
    ]
    assert page_of(ROBOT, Subject("queue", made.name_of(made.TRAINER), 1)) is None


@pytest.mark.parametrize("kind", ["topic", "process", "queue"])
def test_what_is_not_there_has_no_page(kind: Any) -> None:
    assert page_of(ROBOT, Subject(kind, "nothing")) is None


def test_every_row_has_a_key_of_its_own() -> None:
    nobody = made.peer(0, "")
    nobody = replace(nobody, participant="")
    memory = made.memory(
        *(LentReport(nobody, 1, 1, 1) for _ in range(2)),
        borrowed=(BorrowedReport(nobody, 1, 1, 1),) * 2,
    )
    owner = made.participant(
        1,
        publishers=tuple(
            made.publisher("t", *(made.link(nobody),) * 2, number=n, machine="ab"[n])
            for n in (0, 1)
        ),
        subscribers=(made.subscriber("t"),) * 2,
        queues=(made.queue("q", *(QueueClientReport(nobody, 0, 0, 0),) * 2),),
        memory=memory,
    )
    shown = snapshot(None, made.inspection(owner))
    subjects = (
        Subject("topic", "t"),
        Subject("process", owner.participant),
        Subject("queue", owner.participant),
    )
    for page in (domain_page(shown), *(page_of(shown, subject) for subject in subjects)):
        assert page
        for table in page.tables:
            keys = [row.key for row in table.rows()]
            assert len(keys) == len(set(keys)), (page.title, table.name)


def test_a_filter_looks_at_the_columns_of_text() -> None:
    (topics, *_) = domain_page(ROBOT).tables
    image, features = topics.rows()
    assert matches(image, topics.columns, "CAMERA/")
    assert matches(image, topics.columns, "demo.f")
    assert matches(features, topics.columns, "gpu-host")
    assert not matches(features, topics.columns, "60.0")


def test_texts_of_other_processes_do_not_reach_the_terminal_as_they_are() -> None:
    assert shown("a\x1b]0;b\x07\u202ec\n") == "a?]0;b??c?"
    bad = made.participant(
        1,
        "\x1b[2J",
        process="\x1b[1m",
        publishers=(made.publisher("\x1b[H", type="\x1b[0m\nx"),),
        subscribers=(made.subscriber("\x1b[H", access="\x1b[K", node="\x1b[J"),),
    )
    topic, *_ = rows_of(snapshot(None, made.inspection(bad)), "Topics")
    assert (topic["topic"], topic["type"]) == ("?[H", "?[0m")
    process, *_ = rows_of(snapshot(None, made.inspection(bad)), "Processes")
    assert (process["process"], process["program"]) == ("?[2J", "?[1m")
    for kind, name in (("topic", "\x1b[H"), ("process", bad.participant)):
        page = page_of(snapshot(None, made.inspection(bad)), Subject(kind, name))  # type: ignore[arg-type]
        assert page
        told = [page.title, page.about, *(str(texts(table)) for table in page.tables)]
        assert all("\x1b" not in text and "\\x1b" not in text for text in told)


def test_the_end_of_a_long_name_is_kept() -> None:
    assert short("a" * 30 + "/image", 12) == "…aaaaa/image"
    assert len(short("x" * 500)) == 40
