"""`tensorbus top`, with the keys that a user presses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.widgets import HelpPanel, Input

import tensorbus as tb
from support import inspections as made
from support.screens.top import Session, run, session
from tensorbus._top.row_table import _Cell

ROBOT = made.robot(2.0), made.robot(4.0)


def test_topics_have_rates_and_those_that_are_held_up_are_red_with_the_reason() -> None:
    async def test() -> None:
        async with session(ROBOT[0]) as top:
            assert top.text("title") == "domain /run/user/1000/tensorbus/default  "
            assert top.column("Hz") == ["-", "-"]
            await top.show(ROBOT[1])
            assert top.column("Hz") == ["30.0", "60.0"]
            assert top.red() == ["camera/image"]
            assert top.text("troubles").splitlines() == [
                f"viewer (pid 4242) cannot be inspected: {made.STOPPED}",
                "viewer (pid 4242) has had no room on camera/image for 3.2 s: camera waits",
                "queue batches is full: 16/16 items, 1 put waits",
            ]

    run(test)


def test_the_other_tables_are_a_key_away() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("2")
            assert top.column("pid") == ["4100", "4180", "4300", "4400", "4242"]
            assert top.red() == ["viewer"]
            await top.press("3")
            assert (top.column("queue"), top.red()) == (["batches"], ["batches"])
            await top.press("4")
            assert top.column("machine") == ["gpu-host", "here"]
            await top.press("5")
            assert top.column("pipeline") == []
            await top.press("6")  # there is none
            assert top.column("pipeline") == []
            await top.press("1")
            assert top.column("topic") == ["camera/image", "model/features"]

    run(test)


def test_a_table_is_sorted_by_any_column() -> None:
    async def test() -> None:
        async with session(*ROBOT, size=(100, 20)) as top:
            await top.press("greater_than_sign", "greater_than_sign", "greater_than_sign")
            assert top.column("topic") == ["model/features", "camera/image"]  # by Hz
            await top.press("r")
            assert top.column("topic") == ["camera/image", "model/features"]
            await top.press("less_than_sign", "less_than_sign", "less_than_sign")
            await top.press("less_than_sign")  # from the first column to the last: why
            assert top.column("topic") == ["camera/image", "model/features"]
            await top.press("r")
            assert top.column("topic") == ["model/features", "camera/image"]
            for first in ("camera/image", "model/features"):
                await top.pilot.click(top.table, offset=(3, 0))  # the head of the first column
                await top.pilot.pause()
                assert top.column("topic")[0] == first

    run(test)


def test_the_order_follows_the_figures_and_the_cursor_its_row() -> None:
    def at(seconds: float, faster: int) -> tb.Inspection:
        rates = {1: 30.0, 2: 20.0, 3: 10.0, faster: 99.0}
        publishers = (
            made.publisher(f"t{n}", sent=round(rate * seconds), number=n)
            for n, rate in rates.items()
        )
        return made.inspection(made.participant(1, publishers=tuple(publishers)), at=seconds)

    async def test() -> None:
        async with session(at(1.0, 1), at(2.0, 1)) as top:
            await top.press(*["greater_than_sign"] * 3)
            assert top.column("topic") == ["t1", "t2", "t3"]
            await top.press("down")
            assert top.chosen() == "t2"
            await top.show(at(2.0, 2), at(3.0, 2))
            assert top.column("topic") == ["t2", "t1", "t3"]
            assert top.chosen() == "t2"
            await top.show(at(3.0, 3), at(4.0, 3))
            assert top.column("topic") == ["t3", "t1", "t2"]
            assert top.chosen() == "t3"  # at the top, it stays at the top

    run(test)


def test_a_filter_leaves_the_rows_that_match() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("slash", *"MODEL")
            assert top.column("topic") == ["model/features"]
            await top.press("enter")  # which keeps it
            await top.show(made.robot(6.0))
            assert top.column("topic") == ["model/features"]
            await top.press("2")
            assert top.rows() == []
            await top.press("1", "escape")
            assert len(top.rows()) == 2
            await top.press("slash", "q", "escape")  # q is a letter there
            assert len(top.rows()) == 2
            assert not top.app.screen.query_one(Input).display

    run(test)


def test_a_row_opens_a_page_and_its_rows_open_more() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("enter")
            assert top.text("title") == "topic camera/image  of demo.Frame"
            assert top.column("subscriber") == ["detector (pid 4180)", "viewer (pid 4242)"]
            assert top.red() == ["viewer (pid 4242)"]
            await top.press("enter")
            assert top.text("title").startswith("detector (pid 4180)")
            await top.press("4")
            assert top.column("process") == ["camera (pid 4100)"]
            await top.press("enter", "enter")
            assert top.text("title") == "topic camera/image  of demo.Frame"
            await top.show(made.robot(6.0))
            await top.press("2")
            assert top.column("Hz") == ["30.0"]  # also the pages go on
            await top.press("escape", "backspace", "escape", "escape")
            assert top.text("title").startswith("domain")
            await top.press("escape")  # there is nothing before it
            assert top.text("title").startswith("domain")

    run(test)


def test_the_pages_of_a_queue_and_of_a_machine_are_opened() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("3", "enter")
            assert top.text("title").startswith("queue batches  of trainer (pid 4400)")
            await top.press("escape", "4", "enter")
            assert top.text("title").startswith("machine gpu-host")
            assert top.column("topic") == ["model/features"]

    run(test)


def test_a_process_that_vanishes_leaves_its_tables_and_its_page_says_so() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("2", "enter")
            assert top.text("title").startswith("camera (pid 4100)  ")
            last = made.robot(6.0)
            await top.show(replace(last, participants=last.participants[1:]))
            assert top.text("title").startswith("camera (pid 4100) is gone.")
            await top.press("escape")
            assert top.column("process") == ["detector", "tensorbus", "trainer", "viewer"]
            await top.press(*["down"] * 3)
            assert top.chosen() == "viewer"
            await top.show(replace(last, participants=last.participants[1:2]))
            assert top.column("process") == ["detector"]
            assert top.chosen() == "detector"
            await top.show(made.inspection())
            assert top.rows() == []
            await top.press("enter", "down", "r")  # of no row
            await top.show(last)
            assert len(top.rows()) == 5

    run(test)


def test_a_row_whose_process_is_not_known_opens_nothing() -> None:
    async def test() -> None:
        unknown = made.publisher("t", made.link(made.peer(9, "other")))
        async with session(made.inspection(made.participant(1, publishers=(unknown,)))) as top:
            await top.press("enter")
            assert top.column("subscriber") == ["other (pid 9)"]
            await top.press("enter")
            assert top.text("title").startswith("topic t")

    run(test)


def test_nobody_is_asked_during_a_pause() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("p")
            assert top.text("state").startswith("PAUSED at ")
            asked = top.source.asked
            top.source.answer(made.inspection(at=8.0))  # was asked before
            await top.press("2", "1")
            assert top.column("Hz") == ["30.0", "60.0"]
            assert top.source.asked == asked
            await top.press("space")
            assert "PAUSED" not in top.text("state")
            await top.until(lambda: top.source.asked == asked + 1)
            await top.show(made.robot(6.0))
            assert top.column("Hz") == ["30.0", "60.0"]

    run(test)


def test_the_help_names_the_keys() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            await top.press("question_mark")
            assert "Pause" in top.app.export_screenshot()
            assert top.app.screen.query(HelpPanel)
            await top.press("question_mark")
            assert not top.app.screen.query(HelpPanel)

    run(test)


def test_what_goes_wrong_is_shown_and_tried_again() -> None:
    async def test() -> None:
        async with session(OSError(13, "Permission denied", "\x1b[2J")) as top:
            assert "Permission denied" in top.text("state")
            assert "\x1b" not in top.text("state")
            assert top.app.screen.query_one("#state").has_class("failed")
            await top.show(*ROBOT, tb.AccessDenied("the directory belongs to somebody else"))
            told = "cannot inspect the participants: the directory belongs to somebody else; last: "
            assert top.text("state").startswith(told)
            assert top.column("topic") == ["camera/image", "model/features"]
            await top.show(made.robot(6.0))
            assert "cannot" not in top.text("state")
            assert top.column("Hz") == ["30.0", "60.0"]
            assert not top.app.screen.query_one("#state").has_class("failed")

    run(test)


def test_keys_are_answered_while_the_participants_are_asked() -> None:
    async def test() -> None:
        async with session() as top:  # the first question has no answer yet
            assert top.text("state") == "inspecting the participants"
            await top.press("2", "slash", "x", "escape", "question_mark", "1")
            assert top.rows() == []
            assert top.app.screen.query(HelpPanel)

    run(test)


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("slash", "a", "ctrl+c")])
def test_it_ends_also_while_the_participants_are_asked(keys: tuple[str, ...]) -> None:
    async def test() -> None:
        async with session() as top:
            assert top.app.return_code is None
            await top.pilot.press(*keys)
            assert top.app.return_code == 0

    run(test)


def test_a_small_terminal_shows_what_has_room() -> None:
    async def test() -> None:
        async with session(*ROBOT) as top:
            for width, height in ((40, 10), (1, 1), (200, 60)):
                await top.pilot.resize_terminal(width, height)
                await top.show(made.robot(float(width)))
                await top.pilot.press("2", "enter", "question_mark", "escape", "question_mark")
                await top.press("1")
            await top.pilot.resize_terminal(80, 24)
            await top.show(made.robot(301.0))
            assert top.column("topic") == ["camera/image", "model/features"]
            assert top.table.region.height > 5

    run(test)


def test_markup_in_names_is_text() -> None:
    async def test() -> None:
        name = "[red]a[/red][/]"
        bad = made.participant(1, name, error=name, memory=None, topics=(name,), process=name)
        async with session(made.inspection(bad)) as top:
            assert top.column("topic") == [name]
            assert name in top.text("troubles")
            await top.press("enter")
            assert top.text("title").startswith(f"topic {name}  ")
            await top.press("escape", "2", "enter")
            assert top.text("title").startswith(name)

    run(test)


async def drawn(top: Session, inspection: tb.Inspection) -> int:
    """How many cells are drawn for an inspection."""
    count = 0
    draw = _Cell.__rich__

    def counting(cell: _Cell) -> object:
        nonlocal count
        count += 1
        return draw(cell)

    _Cell.__rich__ = counting  # type: ignore[method-assign, assignment]
    try:
        await top.show(inspection)
    finally:
        _Cell.__rich__ = draw  # type: ignore[method-assign]
    return count


def test_of_a_thousand_topics_only_those_are_drawn_that_can_be_seen() -> None:
    async def test() -> None:
        async with session(made.busy(1000, 1.0), made.busy(1000, 2.0)) as top:
            assert top.table.row_count == 1000
            assert await drawn(top, made.busy(1000, 3.0)) <= 2 * 30 * len(top.table.columns)
            await top.press(*["greater_than_sign"] * 3)
            assert top.column("topic")[0] == "robot/099/sensor/9"
            await top.press("slash", *"042/")
            assert len(top.rows()) == 10
            await top.press("escape")
            assert top.table.row_count == 1000
            await top.show(made.busy(30, 4.0))  # most processes have ended
            assert len(top.rows()) == 30
            await top.show(made.busy(1000, 5.0))
            assert top.table.row_count == 1000

    run(test)
